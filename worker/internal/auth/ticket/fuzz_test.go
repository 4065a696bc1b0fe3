package ticket_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

const day = 24 * time.Hour

var cookieName = regexp.MustCompile(`^svc_(ctl|view)_[A-Za-z0-9]*$`)

// FuzzVerify checks that a token is valid exactly for its launch and use until it
// expires, and that no modification of a token is valid. In made, {h}, {c} and {s}
// stand for the three parts of the token.
func FuzzVerify(f *testing.F) {
	const none, unsigned = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0", "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9"
	f.Add("a-1", "a-1", true, true, int64(0), "{h}.{c}.{s}", uint16(0), byte(0))
	f.Add("a-1", "a1", true, true, int64(0), "{h}.{c}.{s}", uint16(0), byte(0))
	f.Add("a-1", "a-1", true, false, int64(0), "{h}.{c}.{s}", uint16(0), byte(0))
	f.Add("a-1", "a-1", false, false, int64(15*60-1), "{h}.{c}.{s}", uint16(0), byte(0))
	f.Add("a-1", "a-1", false, false, int64(15*60), "{h}.{c}.{s}", uint16(0), byte(0))
	f.Add("a-1", "a-1", true, true, int64(12*60*60), "{h}.{c}.{s}", uint16(0), byte(0))
	f.Add("a-1", "a-1", true, true, int64(0), "{h}.{c}.{s}", uint16(30), byte(1))
	for _, form := range []string{
		none + ".{c}.", none + ".{c}.{s}", unsigned + ".{c}.{s}", "{h}.{c}.", "{h}.{c}", "{h}.{c}.{s}.", "{h}.{c}.{s}=", " {h}.{c}.{s}", "{h}.{c}.{s}\n", "{c}.{h}.{s}", "", "..",
	} {
		f.Add("a-1", "a-1", true, true, int64(0), form, uint16(0), byte(0))
	}
	use := map[bool]ticket.Use{true: ticket.Control, false: ticket.View}
	f.Fuzz(func(t *testing.T, minted, launch string, control, askedControl bool, later int64, form string, position uint16, change byte) {
		if !utf8.ValidString(minted) || later < 0 || later > int64(2*day/time.Second) {
			return // not a launch id, or a clock that runs backwards
		}
		now := clock.NewFake(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
		tickets := ticket.New(now)
		token, expires, err := tickets.Mint(minted, use[control])
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(token, ".")
		sent := []byte(strings.NewReplacer("{h}", parts[0], "{c}", parts[1], "{s}", parts[2]).Replace(form))
		if len(sent) > 0 {
			sent[int(position)%len(sent)] ^= change
		}
		now.Advance(time.Duration(later) * time.Second)
		want := string(sent) == token && minted == launch && control == askedControl && now.Now().Before(expires)
		_, err = tickets.Verify(string(sent), launch, use[askedControl])
		if (err == nil) != want || err != nil && !errors.Is(err, ticket.ErrInvalid) {
			t.Errorf("%q, minted for %q to %s, for %q to %s after %d s: %v", sent, minted, use[control], launch, use[askedControl], later, err)
		}
		if _, err := ticket.New(now).Verify(token, minted, use[control]); err == nil {
			t.Error("the token is valid after a restart")
		}
		if name := ticket.CookieName(launch, use[askedControl]); !cookieName.MatchString(name) || len(name) > len("svc_view_")+len(launch) {
			t.Errorf("got cookie name %q for %q", name, launch)
		}
	})
}
