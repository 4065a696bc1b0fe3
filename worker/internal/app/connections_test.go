package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func TestConnections_RefusesOneMoreThanLimit(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	s := r.launch(t)
	address := *s.WebSocketDebuggerUrl
	var conns []*ws.Conn
	for i := range sandbox.MaxConnections {
		conn, err := ws.Dial(t.Context(), address, nil, ws.Options{})
		if err != nil {
			t.Fatalf("connection %d of %d: %v", i+1, sandbox.MaxConnections, err)
		}
		defer func() { _ = conn.CloseNow() }()
		conns = append(conns, conn)
	}
	path := "/browsers/" + s.LaunchId.String() + "/devtools/browser/a"
	refusal := func() (int, string) { return r.upgrade(t, path, http.Header{"X-Api-Key": {workerKey}}) }
	if status, text := refusal(); status != http.StatusServiceUnavailable || !strings.Contains(text, "limit of 64 connections. Close one") {
		t.Errorf("one connection more: got %d %s", status, text)
	}
	if status, text := r.call(t.Context(), t, "GET", "/browsers/"+s.LaunchId.String()+"/screenshot", "", "X-API-Key", workerKey); status != http.StatusServiceUnavailable {
		t.Errorf("a screenshot at the limit: got %d %s", status, text)
	}
	page := "/browsers/" + s.LaunchId.String() + "/devtools/page/a"
	if status, text := r.upgrade(t, page, http.Header{"X-Api-Key": {workerKey}}); status != http.StatusServiceUnavailable {
		t.Errorf("a connection to a page at the limit: got %d %s", status, text)
	}
	_ = conns[0].CloseNow()
	testenv.Eventually(t, "a connection is free again", func() bool {
		conn, err := ws.Dial(t.Context(), address, nil, ws.Options{})
		if err == nil {
			_ = conn.CloseNow()
		}
		return err == nil
	})
}
