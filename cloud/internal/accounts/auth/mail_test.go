package auth_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// mailbox stores mails in a table, so that a rollback removes them. calls counts the
// calls of Send.
type mailbox struct{ calls atomic.Int64 }

func (m *mailbox) Send(ctx context.Context, tx *sqlx.Tx, recipient, subject, text string) error {
	m.calls.Add(1)
	_, err := tx.ExecContext(ctx, `INSERT INTO mailbox (recipient, subject, body) VALUES ($1, $2, $3)`, recipient, subject, text)
	return err
}

// mails returns the texts of the mails with this subject, oldest first.
func (f fixture) mails(t *testing.T, subject string) []string {
	t.Helper()
	var bodies []string
	if err := f.db.Select(&bodies, `SELECT body FROM mailbox WHERE subject = $1 ORDER BY number`, subject); err != nil {
		t.Fatal(err)
	}
	return bodies
}

const (
	verifySubject = "Verify your e-mail address"
	resetSubject  = "Set a new password"
)

// tokens returns the tokens in the mails with this subject, oldest first.
func (f fixture) tokens(t *testing.T, subject string) []string {
	t.Helper()
	var tokens []string
	for _, body := range f.mails(t, subject) {
		for line := range strings.Lines(body) {
			if _, fragment, found := strings.Cut(strings.TrimSpace(line), "#token="); found {
				tokens = append(tokens, fragment)
			}
		}
	}
	return tokens
}

// last returns the token of the last mail with this subject.
func (f fixture) last(t *testing.T, subject string) string {
	t.Helper()
	tokens := f.tokens(t, subject)
	if len(tokens) == 0 {
		t.Fatalf("no mail with the subject %q contains a token", subject)
	}
	return tokens[len(tokens)-1]
}

// verified reports whether the address of the first user is verified.
func (f fixture) verified(t *testing.T, session auth.Session) bool {
	t.Helper()
	_, verified, err := f.Address(t.Context(), session.User.ID)
	if err != nil {
		t.Fatal(err)
	}
	return verified
}

func TestSignUp_VerificationLinkWorksOnce(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	var recipient, body string
	if err := f.db.QueryRow(`SELECT recipient, body FROM mailbox`).Scan(&recipient, &body); err != nil {
		t.Fatal(err)
	}
	token := f.last(t, verifySubject)
	if link := "https://svc.example/account/verify-email#token=" + token; recipient != "ada@example.com" || strings.Count(body, link) != 1 ||
		strings.Count(body, token) != 1 || strings.Count(body, "http") != 1 || len(token) != 43 {
		t.Errorf("mail to %s: %s", recipient, body)
	}
	if session.User.EmailVerifiedAt != nil || f.verified(t, session) {
		t.Error("the address is verified before the mail was read")
	}
	if err := f.VerifyEmail(t.Context(), home, token); err != nil {
		t.Fatal(err)
	}
	email, verified, err := f.Address(t.Context(), session.User.ID)
	if email != "ada@example.com" || !verified || err != nil {
		t.Errorf("address %q, verified %v, %v", email, verified, err)
	}
	read, err := f.Session(t.Context(), session.Token)
	if err != nil || read.User.EmailVerifiedAt == nil || !read.User.EmailVerifiedAt.Equal(f.clock.Now()) {
		t.Errorf("the session's user is %+v, %v", read.User, err)
	}
	wantKind(t, f.VerifyEmail(t.Context(), home, token), fault.Validation)
}

func TestVerificationToken_ExpiresAfterDayAndHasOnePurpose(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	token := f.last(t, verifySubject)
	wantKind(t, f.ResetPassword(t.Context(), home, token, "another password"), fault.Validation)
	for _, wrong := range []string{"", "x", token[:42], token + "x", strings.ToUpper(token)} {
		wantKind(t, f.VerifyEmail(t.Context(), home, wrong), fault.Validation)
	}
	f.clock.Advance(24 * time.Hour)
	wantKind(t, f.VerifyEmail(t.Context(), home, token), fault.Validation)
	f.clock.Advance(-time.Microsecond)
	if err := f.VerifyEmail(t.Context(), home, token); err != nil || !f.verified(t, session) {
		t.Errorf("just before its end: %v", err)
	}
}

func TestVerifyEmail_UseInvalidatesOtherTokens(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	if err := f.SendVerification(t.Context(), home, session.User.ID); err != nil {
		t.Fatal(err)
	}
	tokens := f.tokens(t, verifySubject)
	if len(tokens) != 2 || tokens[0] == tokens[1] {
		t.Fatalf("tokens %v", tokens)
	}
	if err := f.VerifyEmail(t.Context(), home, tokens[0]); err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.VerifyEmail(t.Context(), home, tokens[1]), fault.Validation)
	wantKind(t, f.SendVerification(t.Context(), home, session.User.ID), fault.Conflict)
}

func TestSendVerification_RateLimitedPerUser(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	for i := range 5 {
		if err := f.SendVerification(t.Context(), home, session.User.ID); err != nil {
			t.Fatalf("mail %d: %v", i, err)
		}
	}
	wantRetry(t, f.SendVerification(t.Context(), home, session.User.ID), 30*time.Second)
	wantRetry(t, f.RequestReset(t.Context(), home, "ADA@example.com"), 30*time.Second)
	if got := len(f.mails(t, verifySubject)); got != 6 {
		t.Errorf("%d mails, want 6", got)
	}
	f.clock.Advance(30 * time.Second)
	if err := f.SendVerification(t.Context(), home, session.User.ID); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	wantRetry(t, f.SendVerification(t.Context(), home, session.User.ID), time.Minute)
}

func TestSpendInvitation_RateLimits(t *testing.T) {
	f := newFixture(t)
	orgID, other, email := uuid.New(), uuid.New(), func(i int) string { return fmt.Sprintf("%d@example.com", i) }
	for name, c := range map[string]struct {
		free       int
		invitation func(i int) (orgID, inviterID uuid.UUID, email string)
	}{
		"one address, in any case": {free: 5, invitation: func(i int) (uuid.UUID, uuid.UUID, string) {
			return uuid.New(), uuid.New(), []string{"eve@example.com", "EVE@example.com"}[i%2]
		}},
		"one organization": {free: 100, invitation: func(i int) (uuid.UUID, uuid.UUID, string) { return orgID, uuid.New(), email(i) }},
		"one inviter":      {free: 100, invitation: func(i int) (uuid.UUID, uuid.UUID, string) { return uuid.New(), other, email(1000 + i) }},
	} {
		t.Run(name, func(t *testing.T) {
			spend := func(i int) error {
				return pg.InTx(t.Context(), f.db, func(tx *sqlx.Tx) error {
					orgID, inviterID, email := c.invitation(i)
					return f.SpendInvitation(t.Context(), tx, orgID, inviterID, email)
				})
			}
			for i := range c.free {
				if err := spend(i); err != nil {
					t.Fatalf("invitation %d: %v", i, err)
				}
			}
			wantRetry(t, spend(c.free), 30*time.Second)
			f.clock.Advance(30 * time.Second)
			if err := spend(c.free); err != nil {
				t.Errorf("after the pause: %v", err)
			}
			wantRetry(t, spend(c.free), time.Minute)
		})
	}
}

func TestSpendInvitation_DoesNotBlockReset(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	spend := func() error {
		return pg.InTx(t.Context(), f.db, func(tx *sqlx.Tx) error {
			return f.SpendInvitation(t.Context(), tx, uuid.New(), uuid.New(), ada.Email)
		})
	}
	for range 5 {
		if err := spend(); err != nil {
			t.Fatal(err)
		}
	}
	wantRetry(t, spend(), 30*time.Second)
	f.forgot(t)
}

func TestSignUp_RefusalSendsNoMail(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	_, err := f.SignUp(t.Context(), home, ada)
	wantKind(t, err, fault.Conflict)
	if got := len(f.mails(t, verifySubject)); got != 1 {
		t.Errorf("%d mails, want the first one", got)
	}
}

func TestMailLinks_KeepPublicURLPath(t *testing.T) {
	f := newFixture(t)
	f.Public = &url.URL{Scheme: "https", Host: "svc.example", Path: "/cloud/"}
	f.signUp(t)
	if body := f.mails(t, verifySubject)[0]; !strings.Contains(body, "https://svc.example/cloud/account/verify-email#token=") {
		t.Errorf("mail: %s", body)
	}
}
