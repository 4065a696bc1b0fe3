package intercept

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// newCapturingFixture returns a browser whose downloads are captured.
func newCapturingFixture() *fixture {
	f := newFixture()
	f.DownloadPath = "/files"
	f.CaptureDownloads = func(contexts ...string) { f.captured = append(f.captured, contexts) }
	return f
}

func TestConnection_RewritesDownloadBehavior(t *testing.T) {
	const call = `{"id":4,"sessionId":"S","method":"Browser.setDownloadBehavior","params":{"behavior":"BEHAVIOR","browserContextId":"C","downloadPath":"C:\\Users\\me","eventsEnabled":true}}`
	const rewritten = `{"id":4,"sessionId":"S","method":"Browser.setDownloadBehavior","params":{"behavior":"allowAndName","browserContextId":"C","downloadPath":"/files","eventsEnabled":true}}`
	for _, behavior := range []string{"allow", "allowAndName", "default", "deny", "unknown"} {
		f := newCapturingFixture()
		s := f.connect()
		message := strings.Replace(call, "BEHAVIOR", behavior, 1)
		want := rewritten
		if behavior == "deny" || behavior == "unknown" {
			want = message
		}
		for _, size := range []int{3, 1000} {
			browser, client := s.send(t, message, size, 7)
			if diff := cmp.Diff(decode(t, want), decode(t, browser)); diff != "" || client != "" {
				t.Errorf("%s: %s\nthe client got %q", behavior, diff, client)
			}
		}
		if len(f.captured) > 0 {
			t.Errorf("%s: captured %v before the end", behavior, f.captured)
		}
		s.Close()
		if diff := cmp.Diff([][]string{{"C"}}, f.captured); diff != "" {
			t.Errorf("%s: %s", behavior, diff)
		}
	}
}

func TestConnection_AnswersDownloadBehaviorOfPage(t *testing.T) {
	f := newCapturingFixture()
	s := f.connect()
	browser, client := s.send(t, `{"id":4,"sessionId":"S","method":"Page.setDownloadBehavior","params":{"behavior":"allow","downloadPath":"/tmp"}}`, 9, 9)
	if diff := cmp.Diff(decode(t, `{"id":4,"sessionId":"S","result":{}}`), decode(t, client)); diff != "" || browser != "" {
		t.Errorf("%s\nthe browser got %q", diff, browser)
	}
	if diff := cmp.Diff([][]string{nil}, f.captured); diff != "" {
		t.Error(diff)
	}
	const deny = `{"id":5,"sessionId":"S","method":"Page.setDownloadBehavior","params":{"behavior":"deny"}}`
	if browser, client := s.send(t, deny, 9, 9); browser != deny || client != "" {
		t.Errorf("a denial: the browser got %q, the client %q", browser, client)
	}
}

// TestConnection_CapturesNewContexts: downloads of a context are captured before the
// client knows the context.
func TestConnection_CapturesNewContexts(t *testing.T) {
	f := newCapturingFixture()
	s := f.connect()
	for _, params := range []string{"", `,"params":{}`, `,"params":{"disposeOnDetach":true}`, `,"params":{"proxyServer":""}`, `,"params":{"proxyServer":"a:1"}`} {
		f.captured = nil
		s.send(t, `{"id":1,"method":"Target.createBrowserContext"`+params+`}`, 100, 100)
		s.toUser.Reset()
		s.answer(t, `{"id":1,"result":{"browserContextId":"C"}}`)
		if diff := cmp.Diff([][]string{{"C"}}, f.captured); diff != "" || s.awaits() {
			t.Errorf("%s: %s", params, diff)
		}
	}
	s.send(t, `{"id":1,"method":"Target.createBrowserContext"}`, 100, 100)
	s.answer(t, `{"id":1,"error":{"code":-32000,"message":"no"}}`)
	s.send(t, `{"id":2,"method":"Target.createBrowserContext","params":{"disposeOnDetach":true}}`, 100, 100)
	s.Close()

	n := f.Connect()
	f.captured = nil
	n.HandleMessage(wsframe.Message{Opcode: wsframe.Text, Raw: inParts(`{"id":1,"method":"Target.createBrowserContext"}`, 5, false)})
	n.HandleAnswer(wsframe.Message{Opcode: wsframe.Text, Raw: wsframe.FromServer(wsframe.Text, []byte(`{"id":1,"result":{"browserContextId":"D"}}`))})
	if diff := cmp.Diff([][]string{{"D"}}, f.captured); diff != "" {
		t.Error(diff)
	}
}
