package devtools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
)

// cdpMessage is a message from Chromium.
type cdpMessage struct {
	ID     int
	Method string
	Params struct {
		Args []struct{ Value json.RawMessage }
	}
	Result struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
}

// evaluate sends a call with this id.
func (s *resumingClient) evaluate(id int, expression string) {
	text, err := json.Marshal(expression)
	s.noError(err)
	s.send(fmt.Sprintf(`{"id":%d,"method":"Runtime.evaluate","params":{"returnByValue":true,"awaitPromise":true,"expression":%s}}`, id, text))
}

// until receives messages until the answer to a call, reconnecting if needed, and
// returns all of them.
func (s *resumingClient) until(id int) (received []cdpMessage) {
	s.t.Helper()
	for {
		text, err := s.receive()
		if err != nil {
			s.noError(s.connect())
			continue
		}
		var m cdpMessage
		s.noError(json.Unmarshal([]byte(text), &m))
		if received = append(received, m); m.ID == id {
			return received
		}
	}
}

// page returns a client of the browser's page, connected through via. It waits until
// the start page is loaded, because loading it discards the JavaScript context.
func (w *testServer) page(t *testing.T, via string) *resumingClient {
	t.Helper()
	var targets []struct{ ID, Type string }
	if err := json.Unmarshal([]byte(do(t, "GET", w.path("/json/list"), "X-API-Key", workerKey).body), &targets); err != nil || len(targets) == 0 {
		t.Fatalf("%+v, %v", targets, err)
	}
	path := "/devtools/page/" + targets[0].ID
	loading := w.open(t, path)
	id := 0
	testenv.Eventually(t, "the start page is loaded", func() bool {
		id++
		loading.evaluate(id, `location.protocol == "http:" && document.readyState == "complete"`)
		received := loading.until(id)
		return string(received[len(received)-1].Result.Result.Value) == "true"
	})
	_ = loading.conn.Close(ws.NormalClosure, "")
	return w.newResumingClient(t, path, via)
}

func TestResume_BigMessageArrivesOnce(t *testing.T) {
	w, _, _ := newRealTestServer(t)
	cutter := newCuttingProxy(t, w.address)
	const size = 20 << 20
	for direction, set := range map[string]func(int64){
		"to the client":  func(offset int64) { cutter.set(-1, offset) },
		"to the browser": func(offset int64) { cutter.set(offset, -1) },
	} {
		cuts := []int64{size / 2, size + 600}
		if testenv.Full() {
			cuts = append(cuts, 70_000, size-1)
		}
		for _, offset := range cuts {
			t.Run(fmt.Sprintf("%s after %d", direction, offset), func(t *testing.T) {
				set(offset)
				s := w.page(t, cutter.Addr().String())
				if err := s.connect(); err != nil { // cut during the handshake
					cutter.set(-1, -1)
					s.noError(s.connect())
				}
				s.evaluate(1, "window.calls = 0")
				if direction == "to the client" {
					s.evaluate(2, fmt.Sprintf(`calls++, "x".repeat(%d)`, size))
				} else {
					s.evaluate(2, `calls++, "`+strings.Repeat("x", size)+`"`)
				}
				cutter.set(-1, -1)
				received := s.until(2)
				if got := len(received[len(received)-1].Result.Result.Value); got != size+2 { // the value includes quotes
					t.Errorf("received %d of %d bytes", got, size+2)
				}
				s.evaluate(3, "calls")
				received = append(received, s.until(3)...)
				last := received[len(received)-1].Result
				if calls := string(last.Result.Value); calls != "1" || len(received) != 3 {
					t.Errorf("the expression was evaluated %s times, and %d answers were received %s", calls, len(received), last.ExceptionDetails)
				}
				_ = s.conn.Close(ws.NormalClosure, "")
			})
		}
	}
}

func TestResume_DeliversMissedEvents(t *testing.T) {
	w, _, _ := newRealTestServer(t)
	s := w.page(t, "")
	s.noError(s.connect())
	s.send(`{"id":1,"method":"Runtime.enable"}`)
	s.until(1)
	s.evaluate(2, `window.n = 0, window.timer = setInterval(() => console.log(++n), 1), 0`)
	var numbers []string
	hear := func(id int) (answer string) {
		for _, m := range s.until(id) {
			if m.Method == "Runtime.consoleAPICalled" {
				numbers = append(numbers, string(m.Params.Args[0].Value))
			}
			answer = string(m.Result.Result.Value)
		}
		return answer
	}
	hear(2)
	for id := 3; id < 13; id++ {
		s.evaluate(id, `new Promise(done => setTimeout(done, 50))`)
		s.cut() // possibly before the browser has received it
		s.noError(s.connect())
		hear(id)
	}
	s.evaluate(13, `clearInterval(timer), n`)
	total := hear(13)
	for i, number := range numbers {
		if number != fmt.Sprint(i+1) {
			t.Fatalf("received %s, want %d", number, i+1)
		}
	}
	if total != fmt.Sprint(len(numbers)) || len(numbers) < 10 {
		t.Errorf("received %d numbers of %s", len(numbers), total)
	}
}

func TestResume_ReportsPageClosedMeanwhile(t *testing.T) {
	w, b, _ := newRealTestServer(t)
	s := w.page(t, "")
	s.noError(s.connect())
	s.evaluate(1, "1")
	s.until(1)
	s.cut()
	browser := w.open(t, b.WebSocketPath)
	id := s.address[strings.LastIndex(s.address, "/")+1 : strings.Index(s.address, "?")]
	browser.send(`{"id":1,"method":"Target.createTarget","params":{"url":"about:blank"}}`) // the browser would end with its last page
	browser.until(1)
	browser.send(`{"id":2,"method":"Target.closeTarget","params":{"targetId":"` + id + `"}}`)
	browser.until(2)
	s.noError(s.connect())
	var received []string
	text, err := s.receive()
	for ; err == nil; text, err = s.receive() {
		received = append(received, text)
	}
	if ws.CloseStatus(err) < 1000 || len(received) == 0 || !strings.Contains(received[len(received)-1], "Inspector.detached") {
		t.Errorf("received %.200q, %v", received, err)
	}
}

func TestResume_EndedBrowserIsGone(t *testing.T) {
	w, b, _ := newRealTestServer(t)
	here, away := w.open(t, b.WebSocketPath), w.page(t, "")
	away.noError(away.connect())
	for _, s := range []*resumingClient{here, away} {
		s.send(`{"id":1,"method":"Target.getTargets"}`)
		s.until(1)
	}
	away.cut()
	if err := b.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := here.receive(); ws.CloseStatus(err) != ws.GoingAway {
		t.Errorf("the client got error %v", err)
	}
	if refused, ok := errors.AsType[*ws.RefusedError](away.dial()); !ok || refused.Status != 404 {
		t.Errorf("the disconnected client: %v", refused)
	}
	testenv.Eventually(t, "no client is counted", func() bool { return w.browser(t).Activity.Clients() == 0 })
}
