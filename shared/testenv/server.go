package testenv

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Serve starts a server, which ends with the test, even if a browser still has requests in
// progress: their contexts end. The Close of httptest waits for them, and browsers repeat a
// request whose connection was closed, so it may wait without end.
func Serve(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	server := httptest.NewUnstartedServer(handler)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	t.Cleanup(func() {
		cancel()
		_ = server.Listener.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return server
}
