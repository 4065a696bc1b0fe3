package auth_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
)

const another = "another password"

// forgot requests a reset of ada's password and returns the mailed token.
func (f fixture) forgot(t *testing.T) string {
	t.Helper()
	if err := f.RequestReset(t.Context(), home, ada.Email); err != nil {
		t.Fatal(err)
	}
	return f.last(t, resetSubject)
}

func TestResetPassword_RevokesOldCredentials(t *testing.T) {
	f := newFixture(t)
	first, second := f.signUp(t), f.signIn(t)
	old, token := f.forgot(t), f.forgot(t)
	if err := f.ResetPassword(t.Context(), home, token, another); err != nil {
		t.Fatal(err)
	}
	for _, session := range []auth.Session{first, second} {
		_, err := f.Authenticate(t.Context(), session.Token)
		wantKind(t, err, fault.Unauthenticated)
	}
	wantKind(t, f.ResetPassword(t.Context(), home, token, another), fault.Validation)
	wantKind(t, f.ResetPassword(t.Context(), home, old, another), fault.Validation)
	_, err := f.SignIn(t.Context(), home, ada.Email, ada.Password)
	wantKind(t, err, fault.Unauthenticated)
	session, err := f.SignIn(t.Context(), home, ada.Email, another)
	if err != nil {
		t.Fatal(err)
	}
	if !f.verified(t, session) {
		t.Error("the address is not verified after the reset")
	}
	wantKind(t, f.VerifyEmail(t.Context(), home, f.last(t, verifySubject)), fault.Validation)
	if got := len(f.mails(t, "Your password was changed")); got != 1 {
		t.Errorf("got %d notification mails, want 1", got)
	}
}

func TestResetPassword_EndsAccountPause(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	for range 5 {
		_, err := f.SignIn(t.Context(), clientAt("198.51.100.1"), ada.Email, "not the password")
		wantKind(t, err, fault.Unauthenticated)
	}
	if err := f.ResetPassword(t.Context(), home, f.forgot(t), another); err != nil {
		t.Fatal(err)
	}
	if _, err := f.SignIn(t.Context(), home, ada.Email, another); err != nil {
		t.Errorf("after the reset: %v", err)
	}
}

func TestResetToken_ExpiresAfterHour(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	token := f.forgot(t)
	wantKind(t, f.VerifyEmail(t.Context(), home, token), fault.Validation)
	f.clock.Advance(time.Hour)
	wantKind(t, f.ResetPassword(t.Context(), home, token, another), fault.Validation)
	f.clock.Advance(-time.Microsecond)
	if err := f.ResetPassword(t.Context(), home, token, another); err != nil {
		t.Errorf("just before its end: %v", err)
	}
}

func TestResetToken_UsedOnceConcurrently(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	token, other := f.forgot(t), f.forgot(t)
	got := outcomes(func(i int) error {
		return f.ResetPassword(t.Context(), clientAt(fmt.Sprintf("198.51.100.%d", i)), []string{token, other}[i%2], another)
	})
	if got[-1] != 1 || got[fault.Validation] != 31 {
		t.Errorf("%v, want one reset and 31 refusals", got)
	}
}

// TestRequestReset_AnswersAlikeForUnknownAddress compares the number of row writes: an
// unknown address causes the same writes, but only its count is committed.
func TestRequestReset_AnswersAlikeForUnknownAddress(t *testing.T) {
	f := newFixture(t)
	f.db.SetMaxOpenConns(1) // the connection whose statistics are flushed
	f.signUp(t)
	written := func(email string) (calls int64, tuples int64) {
		t.Helper()
		before, was := f.mail.calls.Load(), f.written(t)
		if err := f.RequestReset(t.Context(), home, email); err != nil {
			t.Fatal(err)
		}
		return f.mail.calls.Load() - before, f.written(t) - was
	}
	knownMails, knownRows := written(ada.Email)
	mails, rows := written("eve@example.com")
	if mails != knownMails || rows != knownRows || mails != 1 {
		t.Errorf("unknown address: %d mails and %d row writes, want %d and %d as for a known one", mails, rows, knownMails, knownRows)
	}
	var tokens int
	if err := f.db.Get(&tokens, `SELECT count(*) FROM auth_tokens WHERE purpose = 'resetPassword'`); err != nil || tokens != 1 {
		t.Errorf("%d reset tokens, %v; want 1", tokens, err)
	}
	if got := len(f.mails(t, resetSubject)); got != 1 {
		t.Errorf("got %d mails, want 1", got)
	}
	for i := range 4 {
		for _, email := range []string{ada.Email, "eve@example.com"} {
			if err := f.RequestReset(t.Context(), clientAt(fmt.Sprintf("198.51.100.%d", i)), email); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantRetry(t, f.RequestReset(t.Context(), clientAt("198.51.100.9"), ada.Email), 30*time.Second)
	wantRetry(t, f.RequestReset(t.Context(), clientAt("198.51.100.9"), "eve@example.com"), 30*time.Second)
}

// written returns the number of row inserts and updates in the tables that a reset
// writes, including rolled-back ones.
func (f fixture) written(t *testing.T) int64 {
	t.Helper()
	f.db.MustExec(`SELECT pg_stat_force_next_flush()`)
	var n int64
	err := f.db.Get(&n, `
		SELECT coalesce(sum(n_tup_ins + n_tup_upd), 0) FROM pg_stat_user_tables
		WHERE relname IN ('auth_tokens', 'auth_attempts', 'mailbox')`)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRequestReset_LimitsMailsPerClient(t *testing.T) {
	f := newFixture(t)
	for i := range 20 {
		if err := f.RequestReset(t.Context(), home, fmt.Sprintf("%d@example.com", i)); err != nil {
			t.Fatal(err)
		}
	}
	wantRetry(t, f.RequestReset(t.Context(), home, "late@example.com"), 30*time.Second)
}

func TestChangePassword_EndsOtherSessions(t *testing.T) {
	f := newFixture(t)
	other, mine := f.signUp(t), f.signIn(t)
	token := f.forgot(t)
	caller, err := f.Authenticate(t.Context(), mine.Token)
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.ChangePassword(t.Context(), home, caller, "not the password", another), fault.Validation)
	if _, err := f.Authenticate(t.Context(), other.Token); err != nil {
		t.Errorf("a refused change ended a session: %v", err)
	}
	if err := f.ChangePassword(t.Context(), home, caller, ada.Password, another); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Authenticate(t.Context(), mine.Token); err != nil {
		t.Errorf("this session: %v", err)
	}
	_, err = f.Authenticate(t.Context(), other.Token)
	wantKind(t, err, fault.Unauthenticated)
	wantKind(t, f.ResetPassword(t.Context(), home, token, another), fault.Validation)
	_, err = f.SignIn(t.Context(), home, ada.Email, ada.Password)
	wantKind(t, err, fault.Unauthenticated)
	if _, err = f.SignIn(t.Context(), home, ada.Email, another); err != nil {
		t.Errorf("with the new password: %v", err)
	}
}

func TestChangePassword_RateLimitedPerSession(t *testing.T) {
	f := newFixture(t)
	caller, err := f.Authenticate(t.Context(), f.signUp(t).Token)
	if err != nil {
		t.Fatal(err)
	}
	other, err := f.Authenticate(t.Context(), f.signIn(t).Token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		client := clientAt(fmt.Sprintf("198.51.100.%d", i))
		wantKind(t, f.ChangePassword(t.Context(), client, caller, "not the password", another), fault.Validation)
	}
	wantRetry(t, f.ChangePassword(t.Context(), home, caller, ada.Password, another), 30*time.Second)
	if err := f.ChangePassword(t.Context(), home, other, ada.Password, another); err != nil {
		t.Errorf("in another session: %v", err)
	}
}

// holdUp pauses a sign-in between the password check and the creation of the session.
type holdUp struct{ reached, resume chan struct{} }

func (h *holdUp) Organizations(context.Context, uuid.UUID) ([]uuid.UUID, error) {
	close(h.reached)
	<-h.resume
	return nil, nil
}

func TestSignIn_FailsIfPasswordChangesMeanwhile(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	token := f.forgot(t)
	held := &holdUp{reached: make(chan struct{}), resume: make(chan struct{})}
	slow, err := auth.New(f.db, f.clock, held, cheap)
	if err != nil {
		t.Fatal(err)
	}
	var failure error
	var under sync.WaitGroup
	under.Go(func() { _, failure = slow.SignIn(t.Context(), home, ada.Email, ada.Password) })
	<-held.reached
	if err := f.ResetPassword(t.Context(), home, token, another); err != nil {
		t.Fatal(err)
	}
	close(held.resume)
	under.Wait()
	wantKind(t, failure, fault.Unauthenticated)
	var sessions int
	if err := f.db.Get(&sessions, `SELECT count(*) FROM auth_sessions`); err != nil || sessions != 0 {
		t.Errorf("got %d sessions, %v", sessions, err)
	}
}

// slowMailer pauses a transaction at its mail with this subject.
type slowMailer struct {
	mailbox
	subject string
	holdUp
}

func (m *slowMailer) Send(ctx context.Context, tx *sqlx.Tx, recipient, subject, text string) error {
	if subject == m.subject {
		close(m.reached)
		<-m.resume
	}
	return m.mailbox.Send(ctx, tx, recipient, subject, text)
}

// duringReset calls act after a password reset has changed the account, and lets the reset
// end when act waits for it or is done.
func (f fixture) duringReset(t *testing.T, act func()) {
	t.Helper()
	token := f.forgot(t)
	slow := &slowMailer{subject: "Your password was changed", holdUp: holdUp{reached: make(chan struct{}), resume: make(chan struct{})}}
	f.Mailer = slow
	var reset error
	var both sync.WaitGroup
	both.Go(func() { reset = f.ResetPassword(t.Context(), home, token, another) })
	<-slow.reached
	done := make(chan struct{})
	both.Go(func() {
		defer close(done)
		act()
	})
	testenv.Eventually(t, "the action waits for the reset, or is done", func() bool {
		select {
		case <-done:
			return true
		default:
		}
		var waiting int
		err := f.db.Get(&waiting, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		return err == nil && waiting > 0
	})
	close(slow.resume)
	both.Wait()
	if reset != nil {
		t.Fatal(reset)
	}
}

func TestSignIn_WaitsForResetAndFails(t *testing.T) {
	f := newFixture(t)
	f.signUp(t)
	var signIn error
	f.duringReset(t, func() { _, signIn = f.SignIn(t.Context(), clientAt("198.51.100.1"), ada.Email, ada.Password) })
	wantKind(t, signIn, fault.Unauthenticated)
	var sessions int
	if err := f.db.Get(&sessions, `SELECT count(*) FROM auth_sessions`); err != nil || sessions != 0 {
		t.Errorf("got %d sessions, %v", sessions, err)
	}
}
