package intercept

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const (
	request = `{"id":1,"sessionId":"S","method":"Svc.requestHuman","params":{"reason":"Solve it."}}`
	click   = `{"id":2,"method":"Input.dispatchMouseEvent"}`
	cancel  = `{"id":9,"method":"Svc.cancelHuman"}`
)

// relayed is a client's connection over TCP, with both directions relayed.
type relayed struct {
	t         *testing.T
	client    net.Conn        // of the client
	fromRelay *wsframe.Reader // what the client gets
	browser   *wsframe.Reader // what the browser gets
	toRelay   net.Conn        // of the browser
	ended     chan error      // of the client's direction
	stream    *clientStream
}

// pair returns two connected sockets, which end with the test.
func pair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close(); _ = near.Close() })
	return far, near
}

func (f *fixture) relay(t *testing.T) *relayed {
	t.Helper()
	client, clientSide := pair(t)
	browser, browserSide := pair(t)
	n := f.Connect()
	stream, out := n.streams(&ws.Raw{Conn: clientSide}, &ws.Raw{Conn: browserSide})
	r := &relayed{
		t: t, client: client, toRelay: browser, stream: stream, ended: make(chan error, 1),
		fromRelay: wsframe.NewReader(client, false, 1<<24), browser: wsframe.NewReader(browser, true, 1<<24),
	}
	go func() { _ = out.Run(&ws.Raw{Conn: browserSide}) }()
	go func() {
		err := stream.Run(&ws.Raw{Conn: clientSide})
		_, _ = clientSide.Close(), browserSide.Close()
		n.Close()
		r.ended <- err
	}()
	return r
}

func (r *relayed) send(messages ...string) {
	r.t.Helper()
	var raw []byte
	for _, m := range messages {
		raw = append(raw, masked(true, wsframe.Text, []byte(m))...)
	}
	r.write(raw)
}

func (r *relayed) write(raw []byte) {
	r.t.Helper()
	if _, err := r.client.Write(raw); err != nil {
		r.t.Fatal(err)
	}
}

// next returns the next message of a reader, with the opcode of a control frame.
func (r *relayed) next(reader *wsframe.Reader) string {
	r.t.Helper()
	m, err := reader.Next()
	if err != nil {
		r.t.Fatal(err)
	}
	if m.Control() {
		return fmt.Sprintf("%x %s", m.Opcode, m.Payload())
	}
	return string(m.Payload())
}

// wants checks the next messages of a reader.
func (r *relayed) wants(who string, reader *wsframe.Reader, messages ...string) {
	r.t.Helper()
	for _, want := range messages {
		if got := r.next(reader); got != want {
			r.t.Fatalf("the %s got %.200q, want %.200q", who, got, want)
		}
	}
}

// awaitOpen waits until a handover is open.
func (f *fixture) awaitOpen(t *testing.T) *handover.Handover {
	t.Helper()
	testenv.Eventually(t, "an open handover", func() bool { return f.Handovers().Open() != nil })
	return f.Handovers().Open()
}

func TestClientStream_HoldsMessagesInOrder(t *testing.T) {
	long := `{"id":5,"method":"Runtime.evaluate","params":{"expression":"` + strings.Repeat("x", 20_000) + `"}}`
	for _, size := range []int{3, 1000, 1 << 20} {
		f := newFixture()
		r := f.relay(t)
		var held []byte
		for _, m := range []string{click, long, `{"id":6,"method":"Target.createBrowserContext","params":{"proxyServer":"a:1"}}`} {
			held = append(held, inParts(m, size, size > 3)...)
		}
		r.send(`{"id":0,"method":"Browser.getVersion"}`, request)
		r.write(held)
		r.write(masked(true, wsframe.Ping, []byte("alive?")))
		r.wants("browser", r.browser, `{"id":0,"method":"Browser.getVersion"}`)
		for { // pings pass, nothing else
			got := r.next(r.browser)
			if got == "9 alive?" {
				break
			}
			if got != "9 ?" {
				t.Fatalf("the browser got %.100q", got)
			}
		}
		if _, err := r.toRelay.Write(wsframe.FromServer(wsframe.Text, []byte(`{"method":"Page.loadEventFired"}`))); err != nil {
			t.Fatal(err)
		}
		r.wants("client", r.fromRelay, `{"method":"Page.loadEventFired"}`)
		f.awaitOpen(t)
		if _, err := f.Handovers().Finish("thanks"); err != nil {
			t.Fatal(err)
		}
		got := decode(t, r.next(r.fromRelay)).(map[string]any)
		result := got["result"].(map[string]any)
		if got["id"] != 1.0 || got["sessionId"] != "S" || result["outcome"] != "done" || result["note"] != "thanks" || result["seconds"] == nil {
			t.Errorf("the client got %v", got)
		}
		r.wants("browser", r.browser, click, long)
		if got := r.next(r.browser); !strings.Contains(got, "http://127.0.0.2:9") {
			t.Errorf("the browser got %s", got)
		}
		r.send(click)
		r.wants("browser", r.browser, click)
	}
}

func TestClientStream_HoldsMessagesOfOtherConnections(t *testing.T) {
	f := newFixture()
	asking, other := f.relay(t), f.relay(t)
	asking.send(request)
	f.awaitOpen(t)
	other.send(click)
	other.write(masked(true, wsframe.Ping, []byte("1")))
	other.wants("browser", other.browser, "9 1")
	other.send(request)
	if got := other.next(other.fromRelay); !strings.Contains(got, "already open") {
		t.Errorf("a second request: %s", got)
	}
	other.send(cancel)
	other.wants("client", other.fromRelay, `{"id":9,"result":{}}`)
	other.wants("browser", other.browser, click)
	if got := asking.next(asking.fromRelay); !strings.Contains(got, `"outcome":"canceled"`) {
		t.Errorf("the first got %s", got)
	}
	other.send(cancel)
	if got := other.next(other.fromRelay); !strings.Contains(got, "No handover of this browser is open.") {
		t.Errorf("a second cancel: %s", got)
	}
}

func TestClientStream_StopsReadingWhenMuchIsHeld(t *testing.T) {
	f := newFixture()
	asking, other := f.relay(t), f.relay(t)
	asking.send(request)
	opened := f.awaitOpen(t)
	big := `{"id":7,"params":"` + strings.Repeat("y", 64<<20) + `"}`
	sent := make(chan error, 1)
	go func() {
		_, err := other.client.Write(masked(true, wsframe.Text, []byte(big)))
		sent <- err
	}()
	select {
	case <-sent:
		t.Fatal("64 MiB were read during the handover")
	case <-time.After(time.Second): // the socket's buffers are full long before
	}
	opened.Cancel()
	m, err := wsframe.NewReader(other.toRelay, true, 128<<20).Next()
	if err != nil || string(m.Payload()) != big {
		t.Fatalf("the browser got %d bytes (%v)", len(m.Raw), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestClientStream_NoticesEndOfClient checks that the end of a held client is noticed,
// also when its socket is not read any more, and drops its messages.
func TestClientStream_NoticesEndOfClient(t *testing.T) {
	for name, size := range map[string]int{"little is held": 1, "much is held": maxHeld + maxBuffer} {
		for _, frame := range []bool{false, true} {
			f := newFixture()
			asking, other := f.relay(t), f.relay(t)
			asking.send(request)
			f.awaitOpen(t)
			_ = other.client.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			_, _ = other.client.Write(masked(true, wsframe.Text, []byte(`{"id":7,"params":"`+strings.Repeat("y", size)+`"}`)))
			if frame && size == 1 {
				_ = other.client.SetWriteDeadline(time.Time{})
				other.write(masked(true, wsframe.Close, nil))
				other.wants("browser", other.browser, "8 ")
			}
			_ = other.client.Close()
			select {
			case err := <-other.ended:
				if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
					t.Errorf("%s: %v", name, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: the end was not noticed", name)
			}
			if m, err := other.browser.Next(); err == nil {
				t.Errorf("%s: the browser got %.100s", name, m.Payload())
			}
			if f.Handovers().Open() == nil {
				t.Errorf("%s: another client has ended the handover", name)
			}
		}
	}
}

func TestConnection_EndOfRequesterCancels(t *testing.T) {
	f := newFixture()
	r := f.relay(t)
	r.send(request, click)
	opened := f.awaitOpen(t)
	_ = r.client.Close()
	<-opened.Ended()
	if result, _ := opened.Result(); result.Outcome != handover.Canceled {
		t.Errorf("got %+v", result)
	}
}

func TestConnection_RefusesInvalidRequests(t *testing.T) {
	f := newFixture()
	r := f.relay(t)
	for message, want := range map[string]string{
		`{"id":1,"method":"Svc.requestHuman"}`:                                                           "reason must say",
		`{"id":1,"method":"Svc.requestHuman","params":{"reason":" "}}`:                                   "reason must say",
		`{"id":1,"method":"Svc.requestHuman","params":{"reason":"x","timeoutSeconds":0}}`:                "timeoutSeconds must be between 1 and 43200",
		`{"id":1,"method":"Svc.requestHuman","params":{"reason":"x","timeout":9}}`:                       "params must be {reason, timeoutSeconds}",
		`{"id":1,"method":"Svc.requestHuman","params":{"reason":7}}`:                                     "params must be {reason, timeoutSeconds}",
		`{"id":"1","method":"Svc.requestHuman","params":{"reason":"x"}}`:                                 "Message must have integer 'id' property",
		`{"id":1,"method":"Svc.requestHuman","params":{"reason":"` + strings.Repeat("x", 20<<10) + `"}}`: "The message is too long.",
		`{"id":1,"method":"Svc.requestHuman","params":{"reason":"x"}`:                                    "The message is not valid.",
		cancel: "No handover of this browser is open.",
	} {
		r.send(message)
		if got := r.next(r.fromRelay); !strings.Contains(got, want) || !strings.Contains(got, `"error"`) {
			t.Errorf("%.100s: got %s", message, got)
		}
	}
	if f.Handovers().Open() != nil {
		t.Error("a handover is open")
	}
}

func TestConnection_AnswersEndOfBrowser(t *testing.T) {
	f := newFixture()
	r := f.relay(t)
	r.send(request)
	f.awaitOpen(t)
	f.Handovers().Close()
	if got := r.next(r.fromRelay); !strings.Contains(got, "The browser has ended.") {
		t.Errorf("got %s", got)
	}
}
