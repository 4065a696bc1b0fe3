package intercept

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pagesFixture is a browser whose new pages get settings, if settings is set.
type pagesFixture struct {
	fixture
	settings  bool
	navigated []string
}

func newPagesFixture(settings bool) *pagesFixture {
	f := &pagesFixture{settings: settings}
	f.Calls = New(Options{
		HasSettings: func() bool { return f.settings },
		Navigate:    func(targetID, url string) { f.navigated = append(f.navigated, targetID+" "+url) },
	})
	return f
}

func TestConnection_OpensPageBlankBeforeItsURL(t *testing.T) {
	f := newPagesFixture(true)
	s := f.connect()
	const call = `{"id":7,"method":"Target.createTarget","params":{"url":"http://a.test/","background":true},"sessionId":"S"}`
	browser, client := s.send(t, call, 20, 20)
	want := decode(t, `{"id":7,"method":"Target.createTarget","params":{"url":"about:blank","background":true},"sessionId":"S"}`)
	if diff := cmp.Diff(want, decode(t, browser)); diff != "" || client != "" {
		t.Errorf("browser (-want +got):\n%s\nclient got %q", diff, client)
	}
	s.answer(t, `{"id":7,"result":{"targetId":"other session"}}`)
	s.answer(t, `{"id":7,"result":{"targetId":"T"},"sessionId":"S"}`)
	s.answer(t, `{"id":7,"result":{"targetId":"again"},"sessionId":"S"}`)
	if want := []string{"T http://a.test/"}; !slices.Equal(f.navigated, want) {
		t.Errorf("navigated %q, want %q", f.navigated, want)
	}
}

func TestConnection_DoesNotNavigateRefusedPage(t *testing.T) {
	f := newPagesFixture(true)
	s := f.connect()
	s.send(t, `{"id":7,"method":"Target.createTarget","params":{"url":"http://a.test/"}}`, 200, 200)
	s.answer(t, `{"id":7,"error":{"code":-32000,"message":"no"}}`)
	if len(f.navigated) > 0 || s.awaits() {
		t.Errorf("navigated %q, awaits %t", f.navigated, s.awaits())
	}
}

func TestConnection_ForwardsCallsForPagesUnchanged(t *testing.T) {
	for message, settings := range map[string]bool{
		`{"id":1,"method":"Target.createTarget","params":{"url":"http://a.test/"}}`: false,
		`{"id":1,"method":"Target.createTarget","params":{"url":"about:blank"}}`:    true,
		`{"id":1,"method":"Target.createTarget","params":{"url":""}}`:               true,
		`{"id":1,"method":"Target.createTarget","params":{"url":1}}`:                true,
		`{"id":1,"method":"Target.createTarget"}`:                                   true,
		`{"method":"Target.createTarget","params":{"url":"http://a.test/"}}`:        true,
	} {
		s := newPagesFixture(settings).connect()
		if browser, client := s.send(t, message, 200, 200); browser != message || client != "" || s.awaits() {
			t.Errorf("%s: browser got %q, client %q", message, browser, client)
		}
	}
}

func TestNewPage_OpensBlankIfPagesHaveSettings(t *testing.T) {
	with, without := newPagesFixture(true).Calls, newPagesFixture(false).Calls
	for query, want := range map[string]string{
		"http://a.test/?b=c&d":                 "http://a.test/?b=c&d",
		"http%3A%2F%2Fa.test%2F%3Fb%3D%2520+c": "http://a.test/?b=%20+c",
	} {
		if page, blank := with.NewPage(query); page != want || !blank {
			t.Errorf("%s: got %q, %t; want %q", query, page, blank, want)
		}
		for name, calls := range map[string]*Calls{"without settings": without, "without interception": nil, "without navigation": New(Options{})} {
			if _, blank := calls.NewPage(query); blank {
				t.Errorf("%s, %s: opened blank", query, name)
			}
		}
	}
	for _, query := range []string{"", "about:blank", "about%3Ablank", "http://a.test/%zz"} {
		if page, blank := with.NewPage(query); blank {
			t.Errorf("%q: opened blank before %q", query, page)
		}
	}
}
