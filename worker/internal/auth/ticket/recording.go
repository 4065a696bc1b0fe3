package ticket

import (
	"crypto/rand"
	"fmt"
	"time"
)

// Lifetimes of the tokens of recordings.
const (
	RecordingTTL       = 15 * time.Minute // of a ticket, which a URL contains
	RecordingCookieTTL = 4 * time.Hour    // of the token that replaces it
)

// RecordingCookie is the name of the cookie with the token that replaces a recording ticket.
const RecordingCookie = "svc_recording"

// The uses of the tokens of a recording. Their audience is a session, not a launch.
const (
	recordingTicket Use = "recording"
	recordingCookie Use = "recording_cookie"
)

// MintRecording returns a ticket that opens the recording of one session once.
func (t *Tickets) MintRecording(sessionID string) (token string, expires time.Time, err error) {
	return t.signRecording(sessionID, recordingTicket, RecordingTTL)
}

// RedeemRecording spends a ticket and returns the token that replaces it. Error:
// ErrInvalid, also for a spent ticket.
func (t *Tickets) RedeemRecording(token, sessionID string) (cookie string, err error) {
	c, err := t.Verify(token, sessionID, recordingTicket)
	if err != nil {
		return "", err
	}
	if !t.spendRecording(c) {
		return "", fmt.Errorf("%w: it was already used", ErrInvalid)
	}
	cookie, _, err = t.signRecording(sessionID, recordingCookie, RecordingCookieTTL)
	return cookie, err
}

// VerifyRecording is Verify for a token of RedeemRecording.
func (t *Tickets) VerifyRecording(cookie, sessionID string) error {
	_, err := t.Verify(cookie, sessionID, recordingCookie)
	return err
}

func (t *Tickets) signRecording(sessionID string, use Use, lifetime time.Duration) (token string, expires time.Time, err error) {
	now := t.now()
	expires = now.Add(lifetime)
	token, err = t.sign(sessionID, use, Claims{ID: rand.Text(), IssuedAt: now, Expires: expires})
	return token, expires, err
}

// spendRecording returns false if the ticket was already spent.
func (t *Tickets) spendRecording(c Claims) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.recordings.isSpent(c, BrowserPage) {
		return false
	}
	t.recordings.spend(c, BrowserPage, t.clock.Now())
	return true
}
