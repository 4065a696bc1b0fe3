package devtools_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
)

func TestResume_RefusalReasons(t *testing.T) {
	w, _ := newFakeTestServerWithResume(t, resume.Options{ResumeTimeout: 300 * time.Millisecond, Buffer: 1 << 20})
	never := w.newResumingClient(t, "/devtools/page/never", "")
	never.received = 1
	if got := never.closeStatus(); got != resume.NothingToResume {
		t.Errorf("an unknown connection: got close status %d", got)
	}

	s := w.open(t, "/devtools/page/a")
	s.send("one")
	if _, err := s.receive(); err != nil {
		t.Fatal(err)
	}
	ahead := *s
	ahead.received = 2
	if got := ahead.closeStatus(); got != resume.Ahead {
		t.Errorf("a count above the sent messages: got close status %d", got)
	}
	s.send("two") // the connection still works
	if got, err := s.receive(); err != nil || got != "two" {
		t.Errorf("received %q, %v", got, err)
	}

	s.cut()
	testenv.Eventually(t, "the resume timeout has passed", func() bool { return w.browser(t).Activity.Clients() == 0 })
	if got := s.closeStatus(); got != resume.Expired {
		t.Errorf("after the resume timeout: got close status %d", got)
	}

	closed := w.open(t, "/devtools/page/b")
	closed.send("one")
	if _, err := closed.receive(); err != nil {
		t.Fatal(err)
	}
	if err := closed.conn.Close(ws.NormalClosure, "done"); err != nil {
		t.Errorf("no answer to the close frame: %v", err)
	}
	if clients := w.browser(t).Activity.Clients(); clients != 0 {
		t.Errorf("got %d counted clients after a normal close", clients)
	}
	if got := closed.closeStatus(); got != resume.NothingToResume {
		t.Errorf("after a normal close: got close status %d", got)
	}
}

func TestResume_ChecksAccessAgain(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	s := w.open(t, "/devtools/page/a")
	s.send("one")
	if _, err := s.receive(); err != nil {
		t.Fatal(err)
	}
	s.cut()
	noToken := *s
	noToken.address = w.socket("/devtools/page/a") + "?ct=wrong"
	for range 3 {
		refused, ok := errors.AsType[*ws.RefusedError](noToken.dial())
		if !ok || refused.Status != 404 || refused.Body != "unknown browser" {
			t.Errorf("without a token: %v", refused)
		}
	}
	w.clock.Advance(13 * time.Hour) // the control token has expired
	if refused, ok := errors.AsType[*ws.RefusedError](s.dial()); !ok || refused.Status != 404 {
		t.Errorf("an expired token: %v", refused)
	}
	s.address = w.newResumingClient(t, "/devtools/page/a", "").address
	s.noError(s.connect())
}

func TestResume_RefusesInvalidParameters(t *testing.T) {
	w, _ := newFakeTestServer(t, "")
	for query, field := range map[string]string{
		"resume=": "resume", "resume=x": "resume", "resume=-1": "resume", "resume=1.5": "resume", "resume=0&resume=0": "resume",
		"resume=9007199254740992": "resume", "resume=0&client=": "client", "resume=0&client=a%20b": "client",
		"resume=0&client=" + strings.Repeat("a", 65): "client", "resume=0&client=a&client=b": "client",
	} {
		got := do(t, "GET", w.path("/devtools/page/a?"+query), append([]string{"X-API-Key", workerKey}, upgrade...)...)
		if got.status != 400 || !strings.Contains(got.body, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	for path, status := range map[string]int{"/devtools/page/gone": 404, "/devtools/page/odd": 502} {
		if got := do(t, "GET", w.path(path+"?resume=0"), append([]string{"X-API-Key", workerKey}, upgrade...)...); got.status != status {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if clients := w.browser(t).Activity.Clients(); clients != 0 {
		t.Errorf("got %d counted clients", clients)
	}
}

func TestResume_BoundsConnectionsPerLaunch(t *testing.T) {
	w, f := newFakeTestServer(t, "")
	var last *resumingClient
	for i := range 16 {
		last = w.open(t, fmt.Sprintf("/devtools/page/%d", i))
		last.cut()
	}
	got := do(t, "GET", w.path("/devtools/page/more?resume=0"), append([]string{"X-API-Key", workerKey}, upgrade...)...)
	if got.status != 503 || !strings.Contains(got.body, "16 resumable connections") {
		t.Errorf("one connection above the limit: got %d %s", got.status, got.body)
	}
	w.finder.add(f.browser(other, w.clock)) // has a separate limit
	got = do(t, "GET", "http://"+w.address+"/browsers/"+other+"/devtools/page/a?resume=0", append([]string{"X-API-Key", workerKey}, upgrade...)...)
	if got.status != 101 {
		t.Errorf("another launch: got %d %s", got.status, got.body)
	}
	s := w.newResumingClient(t, "/devtools/page/15", "")
	s.noError(s.connect())
	_ = s.conn.Close(ws.NormalClosure, "")
	testenv.Eventually(t, "a connection is free again", func() bool { return w.newResumingClient(t, "/devtools/page/more", "").dial() == nil })
}
