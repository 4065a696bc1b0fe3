package ticket

import (
	"errors"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
)

// fixture is a launch that has begun, with its tickets.
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
	token, err := r.PageToken(launch, until)
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
	return r.Spend(launch, r.claims(t, token, use))
}

func TestLaunchToken_IsStableFromStart(t *testing.T) {
	r := newFixture()
	r.now.Advance(time.Hour)
	token, expires, err := r.LaunchToken(launch)
	if err != nil || !expires.Equal(boot.Add(ControlTTL)) || !r.claims(t, token, Control).Expires.Equal(expires) {
		t.Errorf("until %s: %v", expires, err)
	}
	if r.pageToken(t, time.Time{}) != token {
		t.Error("addresses of pages carry another one from the beginning")
	}
	r.now.Advance(ControlTTL - time.Hour - time.Second)
	if r.launchToken(t) != token {
		t.Error("another one")
	}
	r.now.Advance(time.Second)
	renewed, expires, err := r.LaunchToken(launch)
	if err != nil || renewed == token || !expires.Equal(r.now.Now().Add(ControlTTL)) || r.launchToken(t) != renewed {
		t.Errorf("after its end: until %s: %v", expires, err)
	}
}

func TestPageToken_ChangesOnlyOnceSpent(t *testing.T) {
	r := newFixture()
	own := r.launchToken(t)
	last := own
	for range 3 {
		if !r.spend(t, last, Control) || r.spend(t, last, Control) {
			t.Fatal("a token is spent once")
		}
		r.now.Advance(time.Minute)
		fresh := r.pageToken(t, time.Time{})
		if fresh == last || fresh == own || r.pageToken(t, time.Time{}) != fresh || r.launchToken(t) != own {
			t.Fatal("not one fresh token")
		}
		if !r.claims(t, fresh, Control).Expires.Equal(boot.Add(ControlTTL)) {
			t.Error("it does not end with the launch's")
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
		t.Error("it lasts longer")
	}
	r.now.Advance(ControlTTL) // the launch's own is renewed now, but not for this
	if _, err := r.PageToken(launch, r.now.Now()); err != nil {
		t.Error(err)
	}
	if !r.claims(t, r.pageToken(t, r.now.Now().Add(time.Minute)), Control).Expires.Equal(r.now.Now().Add(time.Minute)) {
		t.Error("it lasts longer")
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
			t.Errorf("until %s, want %s: %v", expires, want, err)
		}
	}
	if _, _, err := r.MintFor(launch, Control, ControlTTL, boot); !errors.Is(err, ErrInvalid) {
		t.Errorf("minted, expired: %v", err)
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
		t.Errorf("%d tokens are kept", kept)
	}
	token := r.launchToken(t)
	r.End(launch)
	if len(r.launches) != 0 {
		t.Error("the launch is kept")
	}
	if c := r.claims(t, token, Control); !r.IsSpent(launch, c) || r.Spend(launch, c) {
		t.Error("a token of a launch that is over opens a page")
	}
	if r.launchToken(t) == token || r.pageToken(t, time.Time{}) == token || len(r.launches) != 0 {
		t.Error("what is asked of a launch that is over is kept")
	}
}

func TestSpend_BoundsMemoryAndNeverReusesTokens(t *testing.T) {
	r := newFixture()
	unspent := mint(t, r.Tickets, launch, Control)
	var spent []Claims
	for range 2*maxSpent + 10 {
		r.now.Advance(time.Second)
		c := r.claims(t, mint(t, r.Tickets, launch, Control), Control)
		if !r.Spend(launch, c) {
			t.Fatal("a fresh token is refused")
		}
		spent = append(spent, c)
	}
	if kept := len(r.launches[launch].spent); kept > maxSpent {
		t.Errorf("%d tokens are kept", kept)
	}
	for _, c := range spent {
		if r.Spend(launch, c) {
			t.Fatal("a token opens a second page")
		}
	}
	if r.spend(t, unspent, Control) {
		t.Error("one that is older than what is remembered counts as fresh")
	}
	if fresh := r.pageToken(t, time.Time{}); fresh == r.launchToken(t) || r.IsSpent(launch, r.claims(t, fresh, Control)) {
		t.Error("addresses of pages carry a token that counts as spent")
	}
}
