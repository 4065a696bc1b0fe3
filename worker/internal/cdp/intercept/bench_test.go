package intercept

import (
	"bytes"
	"net"
	"testing"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// discarded is a connection that drops what is written.
type discarded struct{ net.Conn }

func (discarded) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkClientStream_Process measures what the relay does for each message of a
// client, in reads of one message and of many.
func BenchmarkClientStream_Process(b *testing.B) {
	message := masked(true, wsframe.Text, []byte(`{"id":17,"method":"Runtime.callFunctionOn","params":{"functionDeclaration":"() => 1","objectId":"1.2.3"}}`))
	for name, count := range map[string]int{"one": 1, "many": 200} {
		b.Run(name, func(b *testing.B) {
			n := New(Options{}).Connect()
			stream, _ := n.streams(&ws.Raw{Conn: discarded{}}, &ws.Raw{Conn: discarded{}})
			read := bytes.Repeat(message, count)
			for b.Loop() {
				if err := stream.process(read); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/message")
		})
	}
}
