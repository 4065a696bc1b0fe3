package ticket_test

import (
	"errors"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// TestRecording_OpensOneRecordingOnce redeems a ticket for its session only, and only once.
func TestRecording_OpensOneRecordingOnce(t *testing.T) {
	fake := clock.NewFake(time.Now())
	tickets := ticket.New(fake)
	token, expires, err := tickets.MintRecording("one")
	if err != nil || expires.Sub(fake.Now()) > ticket.RecordingTTL {
		t.Fatalf("got %v, %v", expires, err)
	}
	invalid := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ticket.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", what, err)
		}
	}
	_, err = tickets.RedeemRecording(token, "two")
	invalid("another session", err)
	invalid("a ticket as a cookie", tickets.VerifyRecording(token, "one"))
	cookie, err := tickets.RedeemRecording(token, "one")
	if err != nil {
		t.Fatal(err)
	}
	_, err = tickets.RedeemRecording(token, "one")
	invalid("a spent ticket", err)
	_, err = tickets.RedeemRecording(cookie, "one")
	invalid("a cookie as a ticket", err)
	for _, use := range []ticket.Use{ticket.Control, ticket.View} {
		_, err = tickets.Verify(cookie, "one", use)
		invalid("a cookie as a token of a launch", err)
	}
	if err := tickets.VerifyRecording(cookie, "one"); err != nil {
		t.Error(err)
	}
	invalid("a cookie of another session", tickets.VerifyRecording(cookie, "two"))
	late, _, err := tickets.MintRecording("one")
	if err != nil {
		t.Fatal(err)
	}
	fake.Advance(ticket.RecordingTTL)
	_, err = tickets.RedeemRecording(late, "one")
	invalid("an expired ticket", err)
	fake.Advance(ticket.RecordingCookieTTL)
	invalid("an expired cookie", tickets.VerifyRecording(cookie, "one"))
}
