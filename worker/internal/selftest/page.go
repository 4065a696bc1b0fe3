package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

const siteTitle = "svc-worker selftest"

// site is the website that the browsers visit, on the loopback.
type site struct {
	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup
}

func startSite() (*site, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return nil, err
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<!doctype html><title>"+siteTitle+"</title><h1>It works.</h1>")
	})
	s := &site{listener: listener, server: &http.Server{Handler: page, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}}
	s.serving.Go(func() { _ = s.server.Serve(listener) })
	return s, nil
}

// address returns the host and port of the site.
func (s *site) address() string { return s.listener.Addr().String() }

func (s *site) close() {
	_ = s.server.Close()
	s.serving.Wait()
}

// openPage opens a page in a new tab over the debug port, checks its title and takes a
// screenshot.
func openPage(ctx context.Context, running launch.Running, address string) error {
	socket, err := ws.Dial(ctx, "ws://localhost"+running.Session.DebugPath, nil, ws.Options{DialContext: running.Browser.Dial})
	if err != nil {
		return err
	}
	conn := cdp.OverWebSocket(socket)
	defer func() { _ = conn.Close() }()
	var target struct{ TargetID, SessionID string }
	err = conn.Call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	if err == nil {
		err = conn.Call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	}
	var visit struct{ ErrorText string }
	if err == nil {
		err = conn.Call(ctx, target.SessionID, "Page.navigate", map[string]any{"url": address}, &visit)
	}
	if err != nil || visit.ErrorText != "" {
		return errors.Join(err, fmt.Errorf("the page was not loaded: %s", visit.ErrorText))
	}
	var evaluated struct{ Result struct{ Value string } }
	script := `document.readyState == 'complete' ? document.title : new Promise(done => addEventListener('load', () => done(document.title)))`
	err = conn.Call(ctx, target.SessionID, "Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true}, &evaluated)
	if err != nil || evaluated.Result.Value != siteTitle {
		return errors.Join(err, fmt.Errorf("the page has the title %q, want %q", evaluated.Result.Value, siteTitle))
	}
	var shot struct{ Data []byte }
	err = conn.Call(ctx, target.SessionID, "Page.captureScreenshot", nil, &shot)
	if err != nil || !bytes.HasPrefix(shot.Data, []byte("\x89PNG")) {
		return errors.Join(err, fmt.Errorf("the screenshot of %d bytes is no PNG", len(shot.Data)))
	}
	return nil
}
