package intercept

import (
	"bytes"
	"errors"
	"testing"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

func TestConnection_EndsBrowserAfterItsAnswer(t *testing.T) {
	ended := 0
	f := &fixture{Calls: New(Options{End: func() { ended++ }})}
	for _, tc := range []struct {
		call, answer string
		ends         int
	}{
		{`{"id":1,"method":"Browser.close"}`, `{"id":1,"result":{}}`, 1},
		{`{"id":1,"method":"Browser.close","sessionId":"S"}`, `{"id":1,"result":{},"sessionId":"S"}`, 1},
		{`{"id":1,"method":"Browser.close"}`, `{"id":1,"error":{"code":-32000,"message":"no"}}`, 0},
		{`{"id":1,"method":"Browser.close"}`, `{"id":2,"result":{}}`, 0},
		{`{"id":1,"method":"Browser.closeTarget"}`, `{"id":1,"result":{}}`, 0},
	} {
		s := f.connect()
		ended = 0
		if browser, client := s.send(t, tc.call, 20, 20); browser != tc.call || client != "" || ended > 0 {
			t.Errorf("%s: the browser got %q, the client %q, ended: %d", tc.call, browser, client, ended)
		}
		if s.answer(t, tc.answer); ended != tc.ends {
			t.Errorf("%s, %s: ended %d times, want %d", tc.call, tc.answer, ended, tc.ends)
		}
	}
}

func TestConnection_LeavesCloseToBrowser(t *testing.T) {
	const call = `{"id":1,"method":"Browser.close"}`
	f := &fixture{Calls: New(Options{})}
	s := f.connect()
	if browser, client := s.send(t, call, 20, 20); browser != call || client != "" || f.Closing().Err() != nil {
		t.Errorf("the browser got %q, the client %q", browser, client)
	}
	if s.answer(t, `{"id":1,"result":{}}`); f.Closing().Err() == nil {
		t.Error("the browser does not count as closing")
	}
}

func TestBrowserStream_HoldsEndUntilItIsRecorded(t *testing.T) {
	event, answer := `{"method":"Target.targetDestroyed"}`, `{"id":1,"result":{}}`
	frame := func(text string) []byte { return wsframe.FromServer(wsframe.Text, []byte(text)) }
	closeFrame := wsframe.FromServer(wsframe.Close, wsframe.ClosePayload(wsframe.Normal, ""))
	for name, tc := range map[string]struct {
		sent          []byte // by the browser
		closeAccepted bool
		holds         bool
	}{
		"answer":                {frame(answer), true, true},
		"answer after an event": {append(frame(event), frame(answer)...), true, true},
		"answer, close frame":   {append(frame(answer), closeFrame...), true, true},
		"close frame":           {closeFrame, false, true},
		"refusal":               {frame(`{"id":1,"error":{"code":-32000,"message":"no"}}`), false, false},
		"event":                 {frame(event), false, false},
	} {
		for _, interrupt := range []func(o *browserStream) error{
			func(*browserStream) error { return nil },
			func(o *browserStream) error { return o.Send([]byte("{}")) }, // an answer of the worker comes before
		} {
			s := (&fixture{Calls: New(Options{})}).connect()
			if bytes.Contains(tc.sent, []byte(`"id":1`)) {
				s.send(t, `{"id":1,"method":"Browser.close"}`, 100, 100)
			}
			calls := 0
			s.out.beforeEnd = func(closeAccepted bool) {
				if calls++; bytes.Contains(s.toUser.Bytes(), tc.sent) || closeAccepted != tc.closeAccepted {
					t.Errorf("%s: before the record, the client got %q; accepted: %v", name, s.toUser.Bytes(), closeAccepted)
				}
			}
			if err := errors.Join(interrupt(s.out), s.out.forward(tc.sent)); err != nil || !bytes.Contains(s.toUser.Bytes(), tc.sent) || calls > 1 || (calls == 1) != tc.holds {
				t.Errorf("%s: the client got %q, %v, after %d calls", name, s.toUser.Bytes(), err, calls)
			}
		}
	}
}
