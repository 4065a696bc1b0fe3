package launchsock_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/session"
)

// evaluate returns a call that evaluates to a text of n characters.
func evaluate(id, n int) string {
	return fmt.Sprintf(`{"id":%d,"method":"Runtime.evaluate","sessionId":%%q,"params":{"expression":"'x'.repeat(%d)"}}`, id, n)
}

// attach returns the flat session of a page.
func attach(t testing.TB, conn *ws.Conn) string {
	t.Helper()
	target := call(t, conn, `{"id":1,"method":"Target.createTarget","params":{"url":"about:blank"}}`)
	got := call(t, conn, fmt.Sprintf(`{"id":2,"method":"Target.attachToTarget","params":{"targetId":%q,"flatten":true}}`, target.Result["targetId"]))
	return got.Result["sessionId"].(string)
}

func TestRelay_PassesLargeMessagesAmongAnswers(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, "")
	page := attach(t, conn)
	const size = 8 << 20
	big := fmt.Sprintf(`{"id":100,"sessionId":%q,"method":"Runtime.evaluate","params":{"expression":"'%s'.length"}}`, page, strings.Repeat("y", size))
	send(t, conn, fmt.Sprintf(evaluate(101, size), page))
	send(t, conn, `{"id":102,"method":"Svc.getSessionInfo"}`)
	send(t, conn, big)
	send(t, conn, `{"id":103,"method":"Svc.getSessionInfo"}`)
	values := map[int]any{}
	for range 4 {
		got := next(t, conn)
		if inner, ok := got.Result["result"].(map[string]any); ok {
			values[got.ID] = inner["value"]
		} else {
			values[got.ID] = got.Result["launchId"]
		}
	}
	launchID := w.onlySession(t).LaunchID.String()
	if text, _ := values[101].(string); len(text) != size || values[100] != float64(size) || values[102] != launchID || values[103] != launchID {
		t.Errorf("answers: %d characters, %v, %v, %v", len(text), values[100], values[102], values[103])
	}
}

func TestRelay_InterleavesAnswersAndEventsUnderLoad(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, "")
	page := attach(t, conn)
	const calls = 600
	var writing sync.WaitGroup
	for part := range 3 {
		writing.Go(func() {
			for i := range calls / 3 {
				id := 1000 + part*calls + i
				message := fmt.Sprintf(evaluate(id, 1+i*i*3), page)
				if part == 0 {
					message = fmt.Sprintf(`{"id":%d,"method":"Svc.getBrowserURLs","sessionId":"S"}`, id)
				}
				if err := conn.Write(t.Context(), ws.Text, []byte(message)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ids := map[int]bool{}
	for range calls {
		got := next(t, conn)
		if ids[got.ID] || got.Error != nil {
			t.Fatalf("got answer %d twice, or an error: %+v", got.ID, got.Error)
		}
		ids[got.ID] = true
		if got.ID < 1000+calls && (got.SessionID != "S" || got.Result["viewUrl"] == nil) {
			t.Fatalf("got %+v", got)
		}
	}
	writing.Wait()
}

// TestRelay_AcceptsFragmentationAtEveryByte writes each byte of payload as a frame.
func TestRelay_AcceptsFragmentationAtEveryByte(t *testing.T) {
	w := newFixture(t)
	conn := w.raw(t)
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != 101 {
		t.Fatal(answer, err)
	}
	for id, method := range []string{"Svc.getSessionInfo", "Browser.getVersion", "Svc.unknown", "Browser.getVersion"} {
		message := fmt.Sprintf(`{"id":%d,"method":%q}`, id, method)
		for i := range len(message) {
			opcode := byte(0)
			if i == 0 {
				opcode = 1
			}
			if i == len(message)-1 {
				opcode |= 0x80
			}
			if _, err := conn.Write([]byte{opcode, 0x81, 1, 2, 3, 4, message[i] ^ 1, 0x89, 0x80, 0, 0, 0, 0}); err != nil { // followed by a ping
				t.Fatal(err)
			}
		}
		opcode, payload := readFrame(t, r)
		for opcode == 0xA { // pong
			opcode, payload = readFrame(t, r)
		}
		var got struct{ ID int }
		if err := json.Unmarshal(payload, &got); err != nil || got.ID != id {
			t.Errorf("%s: answered %s", method, payload)
		}
	}
	if _, err := conn.Write([]byte{0x81, 0x01, 'x'}); err != nil { // not masked
		t.Fatal(err)
	}
	opcode, payload := readFrame(t, r)
	for opcode == 0xA {
		opcode, payload = readFrame(t, r)
	}
	if opcode != 8 || binary.BigEndian.Uint16(payload) != 1002 {
		t.Errorf("after an invalid frame: %d %q", opcode, payload)
	}
}

func readFrame(t *testing.T, r *bufio.Reader) (opcode byte, payload []byte) {
	t.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		t.Fatal(err)
	}
	n := int(head[1])
	if n == 126 {
		long := make([]byte, 2)
		_, _ = io.ReadFull(r, long)
		n = int(binary.BigEndian.Uint16(long))
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		t.Fatal(err)
	}
	return head[0] & 0xF, payload
}

func TestRelay_ClientDisconnectEndsBrowser(t *testing.T) {
	w := newFixture(t)
	for name, leave := range map[string]func(*ws.Conn){
		"it sends a close frame":  func(c *ws.Conn) { _ = c.Close(ws.NormalClosure, "") },
		"it drops the connection": func(c *ws.Conn) { _ = c.CloseNow() },
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.open(t, "")
			s := w.onlySession(t)
			began := time.Now()
			leave(conn)
			w.awaitEnd(t, s.ID, session.Killed, session.ClientClose)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestRelay_KeepAliveBrowserRunsUntilIdle(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, `"keepAlive":true,"idleMs":1500`)
	s := w.onlySession(t)
	_ = conn.Close(ws.NormalClosure, "")
	running, ok := w.launches.Running(s.LaunchID)
	testenv.Eventually(t, "the connection has ended", func() bool { return running.Activity.Clients() == 0 })
	if !ok || running.Browser.CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil) != nil {
		t.Fatal("the browser ended with its socket")
	}
	again, err := ws.Dial(t.Context(), fmt.Sprintf("ws://127.0.0.1:%d%s", s.DebugPort, s.DebugPath), nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = again.CloseNow()
	w.awaitEnd(t, s.ID, session.Killed, session.Idle)
}

func TestRelay_ClientMessageIsActivity(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, `"idleMs":1000`)
	s := w.onlySession(t)
	for until := time.Now().Add(2500 * time.Millisecond); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		call(t, conn, `{"id":1,"method":"Browser.getVersion"}`)
	}
	if status, text := closeStatus(t, conn); status != ws.NormalClosure || !strings.Contains(text, "idle") {
		t.Errorf("closed with %d, %s", status, text)
	}
	w.awaitEnd(t, s.ID, session.Killed, session.Idle)
	if got, _ := w.sessions.Get(s.ID); got.EndedAt.Sub(got.StartedAt) < 3*time.Second {
		t.Errorf("the session lasted %v", got.EndedAt.Sub(got.StartedAt))
	}
}

func TestRelay_CloseFrameHoldsEndReason(t *testing.T) {
	for _, tc := range []struct {
		name   string
		end    func(t *testing.T, w *fixture, conn *ws.Conn, s session.Session)
		status ws.Status
		want   session.Status
		reason session.EndReason
	}{
		{"killed by request", func(t *testing.T, w *fixture, _ *ws.Conn, s session.Session) {
			_, _ = w.launches.Kill(t.Context(), s.ID)
		}, ws.NormalClosure, session.Killed, session.ByRequest},
		{"closed by the client", func(t *testing.T, _ *fixture, conn *ws.Conn, _ session.Session) {
			send(t, conn, `{"id":1,"method":"Browser.close"}`)
		}, ws.NormalClosure, session.Exited, session.ClientClose},
		{"crashed", func(t *testing.T, w *fixture, _ *ws.Conn, s session.Session) {
			running, _ := w.launches.Running(s.LaunchID)
			_ = syscall.Kill(running.Browser.PID(), syscall.SIGKILL)
		}, ws.NormalClosure, session.Exited, session.Crash},
		{"the worker ends", func(t *testing.T, w *fixture, _ *ws.Conn, _ session.Session) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_ = w.launches.Shutdown(ctx)
		}, ws.GoingAway, session.Killed, session.Drain},
		{"the socket's service ends", func(_ *testing.T, w *fixture, _ *ws.Conn, _ session.Session) { w.Close() }, ws.GoingAway, session.Killed, session.Drain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newFixture(t)
			conn := w.open(t, "")
			s := w.onlySession(t)
			go tc.end(t, w, conn, s)
			status, text := closeStatus(t, conn)
			if status != tc.status || status == ws.NormalClosure && !strings.Contains(text, string(tc.reason)) {
				t.Errorf("closed with %d, %s; want %d, %s", status, text, tc.status, tc.reason)
			}
			w.awaitEnd(t, s.ID, tc.want, tc.reason)
		})
	}
}

func TestRelay_ContinuesWhileDraining(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, "")
	w.launches.Drain()
	if got := call(t, conn, `{"id":1,"method":"Browser.getVersion"}`); got.Error != nil {
		t.Errorf("got %+v", got)
	}
	if _, err := ws.Dial(t.Context(), w.url(nil)+"env="+strings.ReplaceAll(w.envOf(""), `"`, "%22"), nil, ws.Options{}); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a new launch: %v", err)
	}
}

func TestRelay_DisconnectsSlowReader(t *testing.T) {
	w := newFixture(t)
	conn := w.open(t, "")
	page := attach(t, conn)
	s := w.onlySession(t)
	for i := range 4 { // more than the buffers in between hold
		send(t, conn, fmt.Sprintf(evaluate(i, 16<<20), page))
	}
	began := time.Now()
	if _, err := w.launches.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() { w.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("the connection of the slow reader did not end")
	}
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
}
