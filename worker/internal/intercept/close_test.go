package intercept

import "testing"

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
	s := (&fixture{Calls: New(Options{})}).connect()
	if browser, client := s.send(t, call, 20, 20); browser != call || client != "" || s.awaits() {
		t.Errorf("the browser got %q, the client %q", browser, client)
	}
}
