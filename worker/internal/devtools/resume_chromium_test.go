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

// cdpMessage is a message of Chromium's.
type cdpMessage struct {
	ID     int
	Method string
	Params struct {
		Args []struct{ Value json.RawMessage }
	}
	Result struct {
		Result struct{ Value json.RawMessage }
	}
}

// evaluate says a call whose answer has this id.
func (s *resumingClient) evaluate(id int, expression string) {
	text, err := json.Marshal(expression)
	s.noError(err)
	s.send(fmt.Sprintf(`{"id":%d,"method":"Runtime.evaluate","params":{"returnByValue":true,"awaitPromise":true,"expression":%s}}`, id, text))
}

// until hears messages until the answer to a call, connecting again where it has
// to, and returns them all.
func (s *resumingClient) until(id int) (heard []cdpMessage) {
	s.t.Helper()
	for {
		text, err := s.receive()
		if err != nil {
			s.noError(s.connect())
			continue
		}
		var m cdpMessage
		s.noError(json.Unmarshal([]byte(text), &m))
		if heard = append(heard, m); m.ID == id {
			return heard
		}
	}
}

// page is the socket of the browser's page, by way of via.
func (w *testServer) page(t *testing.T, via string) *resumingClient {
	t.Helper()
	var targets []struct{ ID, Type string }
	if err := json.Unmarshal([]byte(do(t, "GET", w.path("/json/list"), "X-API-Key", workerKey).body), &targets); err != nil || len(targets) == 0 {
		t.Fatalf("%+v, %v", targets, err)
	}
	return w.newResumingClient(t, "/devtools/page/"+targets[0].ID, via)
}

func TestResume_BigMessageArrivesOnce(t *testing.T) {
	w, _, _ := newRealTestServer(t)
	cutter := newCuttingProxy(t, w.address)
	const size = 20 << 20
	for direction, set := range map[string]func(int64){
		"to the client":  func(at int64) { cutter.set(-1, at) },
		"to the browser": func(at int64) { cutter.set(at, -1) },
	} {
		cuts := []int64{size / 2, size + 600}
		if testenv.Full() {
			cuts = append(cuts, 70_000, size-1)
		}
		for _, at := range cuts {
			t.Run(fmt.Sprintf("%s after %d", direction, at), func(t *testing.T) {
				set(at)
				s := w.page(t, cutter.Addr().String())
				if err := s.connect(); err != nil { // cut in the handshake
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
				heard := s.until(2)
				if got := len(heard[len(heard)-1].Result.Result.Value); got != size+2 { // with its quotes
					t.Errorf("%d bytes came of %d", got, size+2)
				}
				s.evaluate(3, "calls")
				heard = append(heard, s.until(3)...)
				if calls := string(heard[len(heard)-1].Result.Result.Value); calls != "1" || len(heard) != 3 {
					t.Errorf("it was evaluated %s times, and %d answers came", calls, len(heard))
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
	s.evaluate(2, `window.n = 0, window.talk = setInterval(() => console.log(++n), 1), 0`)
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
		s.cut() // before the browser has it, perhaps
		s.noError(s.connect())
		hear(id)
	}
	s.evaluate(13, `clearInterval(talk), n`)
	said := hear(13)
	for i, number := range numbers {
		if number != fmt.Sprint(i+1) {
			t.Fatalf("heard %s, want %d", number, i+1)
		}
	}
	if said != fmt.Sprint(len(numbers)) || len(numbers) < 10 {
		t.Errorf("%d numbers of %s were heard", len(numbers), said)
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
	browser.send(`{"id":1,"method":"Target.createTarget","params":{"url":"about:blank"}}`) // the browser ends with its last page
	browser.until(1)
	browser.send(`{"id":2,"method":"Target.closeTarget","params":{"targetId":"` + id + `"}}`)
	browser.until(2)
	s.noError(s.connect())
	var heard []string
	text, err := s.receive()
	for ; err == nil; text, err = s.receive() {
		heard = append(heard, text)
	}
	if ws.CloseStatus(err) < 1000 || len(heard) == 0 || !strings.Contains(heard[len(heard)-1], "Inspector.detached") {
		t.Errorf("heard %.200q, %v", heard, err)
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
		t.Errorf("the client heard %v", err)
	}
	if refused, ok := errors.AsType[*ws.RefusedError](away.dial()); !ok || refused.Status != 404 {
		t.Errorf("who was away: %v", refused)
	}
	testenv.Eventually(t, "nobody is counted", func() bool { return w.browser(t).Activity.Clients() == 0 })
}
