package devtools_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// heldEnd holds what waits for the record of a browser's end.
type heldEnd struct {
	awaited  chan struct{} // one value for each call
	recorded chan struct{} // closed when the end is recorded
}

func (h heldEnd) await(ctx context.Context) {
	select {
	case h.awaited <- struct{}{}:
	default:
	}
	select {
	case <-h.recorded:
	case <-ctx.Done():
	}
}

// newHeldTestServer serves a real browser whose end is recorded when the test says so.
func newHeldTestServer(t *testing.T) (*testServer, *browser.Browser, heldEnd) {
	w, b, _ := newRealTestServer(t)
	held := heldEnd{make(chan struct{}, 1), make(chan struct{})}
	served := w.browser(t)
	served.Calls, served.AwaitEnd = b.Calls(), held.await
	w.finder.add(served)
	return w, b, held
}

var closeCall = wsframe.FromClient(wsframe.Text, []byte(`{"id":1,"method":"Browser.close"}`))

// A client sees the end of the browser only when it is recorded, so that its next launch is
// not refused.
func TestRelay_ShowsEndWhenItIsRecorded(t *testing.T) {
	answer := []byte(`{"id":1,"result":{}}`)
	for name, tc := range map[string]struct {
		query    string
		crash    bool
		answered bool
	}{
		"Browser.close":            {"", false, true},
		"crash":                    {"", true, false},
		"Browser.close, resumable": {"?resume=0", false, true},
		"crash, resumable":         {"?resume=0", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, b, held := newHeldTestServer(t)
			conn, r := w.dialWithEarlyFrame(t, b.WebSocketPath+tc.query, "")
			if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%v %v", res, err)
			}
			if tc.crash {
				_ = syscall.Kill(b.PID(), syscall.SIGKILL)
			} else if _, err := conn.Write(closeCall); err != nil {
				t.Fatal(err)
			}
			<-held.awaited
			<-b.Done()
			received, ended := testenv.Received(t, conn)
			if ended || bytes.Contains(received, answer) || bytes.Contains(received, []byte("socket has ended")) {
				t.Errorf("before the record, the client got %q, end %v", received, ended)
			}
			close(held.recorded)
			rest, err := io.ReadAll(r)
			if err != nil || bytes.Contains(rest, answer) != tc.answered {
				t.Errorf("then the client got %q, %v", rest, err)
			}
		})
	}
}

// A client that leaves does not wait for the record.
func TestRelay_EndsWithClientBeforeRecord(t *testing.T) {
	for name, query := range map[string]string{"once": "", "resumable": "?resume=0"} {
		t.Run(name, func(t *testing.T) {
			w, b, held := newHeldTestServer(t)
			conn, r := w.dialWithEarlyFrame(t, b.WebSocketPath+query, string(closeCall))
			if _, err := http.ReadResponse(r, nil); err != nil {
				t.Fatal(err)
			}
			<-held.awaited
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
			testenv.Eventually(t, "the socket is closed", func() bool { return w.Sockets() == 0 })
			w.Close()
		})
	}
}
