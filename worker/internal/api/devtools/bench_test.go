package devtools_test

import (
	"fmt"
	"testing"

	"github.com/browser-svc/svc/shared/ws"
)

// BenchmarkRoundTrips compares a relayed socket with a direct one, with an echo
// server, where the relay costs most, and with a real browser.
func BenchmarkRoundTrips(b *testing.B) {
	w, f := newFakeTestServer(b, "")
	real, chrome, _ := newRealTestServer(b)
	version := []byte(`{"id":1,"method":"Browser.getVersion"}`)
	for _, side := range []struct {
		name    string
		worker  *testServer
		port    int
		path    string
		message []byte
	}{
		{name: "echo", worker: w, port: f.port, path: "/devtools/page/a", message: version},
		{name: "echo 1 MiB", worker: w, port: f.port, path: "/devtools/page/a", message: make([]byte, 1<<20)},
		{name: "chromium", worker: real, port: chrome.DebugPort, path: chrome.WebSocketPath, message: version},
	} {
		b.Run(side.name+"/direct", func(b *testing.B) {
			conn, err := ws.Dial(b.Context(), fmt.Sprintf("ws://127.0.0.1:%d%s", side.port, side.path), nil, ws.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer conn.CloseNow()
			roundTrips(b, conn, side.message)
		})
		b.Run(side.name+"/relayed", func(b *testing.B) {
			roundTrips(b, side.worker.dial(b, side.path), side.message)
		})
	}
}

func roundTrips(b *testing.B, conn *ws.Conn, message []byte) {
	for b.Loop() {
		if err := conn.Write(b.Context(), ws.Text, message); err != nil {
			b.Fatal(err)
		}
		if _, _, err := conn.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "roundtrips/s")
}
