package ticket

import (
	"errors"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
)

// fixture is a running launch with its tickets.
type fixture struct {
	*Tickets
	now *clock.Fake
}

func newFixture() fixture {
	now := clock.NewFake(boot)
	r := fixture{New(now), now}
	r.Begin(launch)
	return r
}

func (r fixture) launchToken(t *testing.T) string {
	t.Helper()
	token, _, err := r.LaunchToken(launch)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (r fixture) pageToken(t *testing.T, until time.Time) string {
	t.Helper()
	token, err := r.PageToken(launch, BrowserPage, until)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (r fixture) claims(t *testing.T, token string, use Use) Claims {
	t.Helper()
	c, err := r.Verify(token, launch, use)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r fixture) spend(t *testing.T, token string, use Use) bool {
	t.Helper()
	return r.Spend(launch, r.claims(t, token, use), BrowserPage)
}

func TestLaunchToken_IsStableFromStart(t *testing.T) {
	r := newFixture()
	r.now.Advance(time.Hour)
	token, expires, err := r.LaunchToken(launch)
	if err != nil || !expires.Equal(boot.Add(ControlTTL)) || !r.claims(t, token, Control).Expires.Equal(expires) {
		t.Errorf("expires at %s: %v", expires, err)
	}
	if r.pageToken(t, time.Time{}) != token {
		t.Error("the page token differs from the launch token before it is spent")
	}
	r.now.Advance(ControlTTL - time.Hour - time.Second)
	if r.launchToken(t) != token {
		t.Error("LaunchToken returned another token")
	}
	r.now.Advance(time.Second)
	renewed, expires, err := r.LaunchToken(launch)
	if err != nil || renewed == token || !expires.Equal(r.now.Now().Add(ControlTTL)) || r.launchToken(t) != renewed {
		t.Errorf("after its end: expires at %s: %v", expires, err)
	}
}

func TestPageToken_ChangesOnlyOnceSpent(t *testing.T) {
	r := newFixture()
	own := r.launchToken(t)
	last := own
	for range 3 {
		if !r.spend(t, last, Control) || r.spend(t, last, Control) {
			t.Fatal("the same token was spent twice")
		}
		r.now.Advance(time.Minute)
		fresh := r.pageToken(t, time.Time{})
		if fresh == last || fresh == own || r.pageToken(t, time.Time{}) != fresh || r.launchToken(t) != own {
			t.Fatal("got no new stable page token after the first was spent")
		}
		if !r.claims(t, fresh, Control).Expires.Equal(boot.Add(ControlTTL)) {
			t.Error("the page token does not expire with the launch token")
		}
		last = fresh
	}
}

func TestPageToken_ExpiresNoLaterThanItsSources(t *testing.T) {
	r := newFixture()
	r.spend(t, r.launchToken(t), Control)
	long := r.pageToken(t, time.Time{})
	until := boot.Add(time.Hour)
	short := r.pageToken(t, until)
	if short == long || !r.claims(t, short, Control).Expires.Equal(until) || r.pageToken(t, until) != short {
		t.Error("the page token expires too late")
	}
	r.now.Advance(ControlTTL) // the launch token is renewed now, but until limits the page token
	if _, err := r.PageToken(launch, BrowserPage, r.now.Now()); err != nil {
		t.Error(err)
	}
	if !r.claims(t, r.pageToken(t, r.now.Now().Add(time.Minute)), Control).Expires.Equal(r.now.Now().Add(time.Minute)) {
		t.Error("the page token expires too late")
	}
}

func TestMintFor_ExpiresByUntil(t *testing.T) {
	r := newFixture()
	for _, until := range []time.Time{boot.Add(time.Minute), boot.Add(13 * time.Hour)} {
		want := until
		if want.After(boot.Add(ControlTTL)) {
			want = boot.Add(ControlTTL)
		}
		if _, expires, err := r.MintFor(launch, Control, ControlTTL, until); err != nil || !expires.Equal(want) {
			t.Errorf("expires at %s, want %s: %v", expires, want, err)
		}
	}
	if _, _, err := r.MintFor(launch, Control, ControlTTL, boot); !errors.Is(err, ErrInvalid) {
		t.Errorf("minted an expired token: %v", err)
	}
}

func TestSpend_ForgetsExpiredTokensAndEndedLaunches(t *testing.T) {
	r := newFixture()
	for range 10 {
		r.spend(t, mint(t, r.Tickets, launch, View), View)
	}
	r.now.Advance(ViewTTL)
	r.spend(t, mint(t, r.Tickets, launch, View), View)
	if kept := len(r.launches[launch].spent); kept != 1 {
		t.Errorf("%d tokens are stored", kept)
	}
	token := r.launchToken(t)
	r.End(launch)
	if len(r.launches) != 0 {
		t.Error("the launch is still stored")
	}
	if c := r.claims(t, token, Control); !r.IsSpent(launch, c, BrowserPage) || r.Spend(launch, c, BrowserPage) {
		t.Error("a token of an ended launch was spent")
	}
	if r.launchToken(t) == token || r.pageToken(t, time.Time{}) == token || len(r.launches) != 0 {
		t.Error("a call for an ended launch stored state")
	}
}

func TestSpend_BoundsMemoryAndNeverReusesTokens(t *testing.T) {
	r := newFixture()
	unspent := mint(t, r.Tickets, launch, Control)
	var spent []Claims
	for range 2*maxSpent + 10 {
		r.now.Advance(time.Second)
		c := r.claims(t, mint(t, r.Tickets, launch, Control), Control)
		if !r.Spend(launch, c, BrowserPage) {
			t.Fatal("a new token was refused")
		}
		spent = append(spent, c)
	}
	if kept := len(r.launches[launch].spent); kept > maxSpent {
		t.Errorf("%d tokens are stored", kept)
	}
	for _, c := range spent {
		if r.Spend(launch, c, BrowserPage) {
			t.Fatal("a token was spent twice")
		}
	}
	if r.spend(t, unspent, Control) {
		t.Error("a token older than the remembered ones counts as unspent")
	}
	if fresh := r.pageToken(t, time.Time{}); fresh == r.launchToken(t) || r.IsSpent(launch, r.claims(t, fresh, Control), BrowserPage) {
		t.Error("the page token counts as spent")
	}
}
