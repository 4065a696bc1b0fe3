package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestConn_ReadsWholeResponse(t *testing.T) {
	long := strings.Repeat("long ", 20_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch body, _ := io.ReadAll(r.Body); string(body) {
		case "chunks":
			_, _ = io.WriteString(w, long)
		case "nothing":
			w.WriteHeader(http.StatusPaymentRequired)
		default:
			_, _ = w.Write(body)
		}
	}))
	t.Cleanup(server.Close)
	conns, closeAll, err := connect(t.Context(), server.Listener.Addr().String(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	c := conns[0]
	for _, c.keep = range []bool{true, false} {
		for _, test := range []struct {
			body, want string
			status     int
		}{{"short", "short", 200}, {"chunks", long, 200}, {"nothing", "", 402}, {"again", "again", 200}} {
			status, err := c.do(request(http.MethodPost, "/", "key", []byte(test.body)))
			if err != nil || status != test.status {
				t.Fatalf("%s: %d, %v", test.body, status, err)
			}
			if c.keep && string(c.body) != test.want {
				t.Errorf("%s: a body of %d bytes, want %d", test.body, len(c.body), len(test.want))
			}
		}
	}
	if err := c.expect(200, request(http.MethodPost, "/", "key", []byte("nothing"))); err == nil {
		t.Error("402 was taken for 200")
	}
}
