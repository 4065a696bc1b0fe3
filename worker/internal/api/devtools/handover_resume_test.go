package devtools_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
)

const requestHuman = `{"id":1,"method":"Svc.requestHuman","params":{"reason":"Solve it."}}`

// withHandovers gives the browser of launch handovers and returns them.
func (w *testServer) withHandovers(t *testing.T) *handover.Handovers {
	t.Helper()
	b := w.browser(t)
	b.Calls = intercept.New(intercept.Options{})
	w.finder.add(b)
	return b.Calls.Handovers()
}

// awaitHandover waits until a handover is open.
func awaitHandover(t *testing.T, handovers *handover.Handovers) *handover.Handover {
	t.Helper()
	testenv.Eventually(t, "an open handover", func() bool { return handovers.Open() != nil })
	return handovers.Open()
}

// TestResume_HandoverOutlivesSocket cuts the sockets of a client during a handover: the
// client gets the outcome over another socket, and its held messages reach the browser
// once, in order.
func TestResume_HandoverOutlivesSocket(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	h := w.withHandovers(t)
	s := w.open(t, "/devtools/page/a")
	want := []string{requestHuman}
	s.send(requestHuman)
	awaitHandover(t, h)
	for n := 2; n < 8; n++ {
		message := fmt.Sprintf(`{"id":%d,"method":"Page.reload"}`, n)
		s.send(message)
		want = append(want, message)
		s.cut()
		s.noError(s.connect())
	}
	if s.status.Sent != 0 {
		t.Errorf("the browser has answered %d messages during the handover", s.status.Sent)
	}
	s.cut()
	if _, err := h.Finish(""); err != nil {
		t.Fatal(err)
	}
	s.noError(s.connect())
	var answers, echoed []string
	for range want {
		text, err := s.receive()
		s.noError(err)
		if strings.Contains(text, "result") {
			answers = append(answers, text)
		} else {
			echoed = append(echoed, text)
		}
	}
	if len(answers) != 1 || !strings.Contains(answers[0], `"outcome":"done"`) || strings.Join(echoed, "\n") != strings.Join(want[1:], "\n") {
		t.Errorf("received %v and %v", answers, echoed)
	}
}

// TestResume_HeldClientIsLimited checks that a resumable connection holds a limited size
// of messages, answers pings until then, and notices the end of its client.
func TestResume_HeldClientIsLimited(t *testing.T) {
	w, _ := newFakeTestServerWithResume(t, resume.Options{ResumeTimeout: 30 * time.Second, Buffer: 8 << 20})
	h := w.withHandovers(t)
	asking, s := w.open(t, "/devtools/page/a"), w.open(t, "/devtools/page/b")
	asking.send(requestHuman)
	opened := awaitHandover(t, h)
	message := `{"id":2,"params":"` + strings.Repeat("x", 300<<10) + `"}`
	s.send(message)
	pong := make(chan error, 1)
	go func() { pong <- s.conn.Ping(t.Context()) }()
	go func() { _, _, _ = s.conn.Read(t.Context()) }() // reads the pong
	if err := <-pong; err != nil {
		t.Error(err)
	}
	s.cut()
	s.noError(s.connect())
	if s.status.Received != 1 {
		t.Errorf("%d messages were accepted", s.status.Received)
	}
	for range 3 { // the last does not fit; nothing follows it, which the kernel does not accept
		s.send(message)
	}
	testenv.Eventually(t, "a full queue", func() bool {
		s.cut()
		s.noError(s.dial())
		s.noError(s.readStatus("Svc.resumed"))
		for _, again := range s.sent[s.status.Received:] {
			_ = s.write(again)
		}
		return s.status.Received == 3
	})
	s.cut()
	testenv.Eventually(t, "the end of the client", func() bool { return w.Sockets() == 1 })
	opened.Cancel()
	s.noError(s.connect())
	for range s.sent {
		text, err := s.receive()
		s.noError(err)
		if text != message {
			t.Fatalf("received %d bytes", len(text))
		}
	}
}

// TestResume_EndOfRequesterCancels closes a resumable connection for good.
func TestResume_EndOfRequesterCancels(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	h := w.withHandovers(t)
	s := w.open(t, "/devtools/page/a")
	s.send(requestHuman)
	opened := awaitHandover(t, h)
	_ = s.conn.Close(ws.NormalClosure, "")
	<-opened.Ended()
	if result, _ := opened.Result(); result.Outcome != handover.Canceled {
		t.Errorf("got %+v", result)
	}
}

// TestResume_CallsAboutHandoverAreNotHeld cancels behind a held message.
func TestResume_CallsAboutHandoverAreNotHeld(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	h := w.withHandovers(t)
	s := w.open(t, "/devtools/page/a")
	s.send(requestHuman)
	awaitHandover(t, h)
	s.send(`{"id":2,"method":"Page.reload"}`)
	s.send(`{"id":3,"method":"Svc.requestHuman","params":{"reason":"Again."}}`)
	s.send(`{"id":4,"method":"Svc.cancelHuman"}`)
	var received []string
	for range 4 {
		text, err := s.receive()
		s.noError(err)
		received = append(received, text)
	}
	all := strings.Join(received, "\n")
	for _, want := range []string{`"outcome":"canceled"`, "Page.reload", "already open", `{"id":4,"result":{}}`} {
		if !strings.Contains(all, want) {
			t.Errorf("received no %s:\n%s", want, all)
		}
	}
}
