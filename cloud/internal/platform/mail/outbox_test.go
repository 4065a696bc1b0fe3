package mail_test

import (
	"context"
	"errors"
	"math"
	"mime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/platform/mail"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

const token = "c2VjcmV0LXRva2Vu"

func TestOutbox_EncryptsUntilSentThenWipes(t *testing.T) {
	s := serve(t, false)
	h := newFixture(t, dialer(t, "smtp://robot:hunter2@localhost:"+s.port, s))
	h.queue("Ada <ada@example.com>", "Héllo\r\nBcc: eve@example.com", "Open https://svc.example/#"+token+"\nBest\n.\nsvc")
	var dump string
	if err := h.db.Get(&dump, `SELECT string_agg(m::text || encode(encrypted_text, 'escape'), '') FROM mail_outbox m`); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(dump, token) {
		t.Error("the database contains the plaintext token")
	}
	run(t, &h.Outbox)
	sent := h.await("sent", func(r row) bool { return r.State == "sent" })
	if !sent.Wiped || sent.Attempts != 1 || sent.Error != nil {
		t.Errorf("after sending: row %+v", sent)
	}
	mails := s.received()
	if len(mails) != 1 {
		t.Fatalf("%d mails arrived", len(mails))
	}
	got := mails[0]
	if got.sender != "noreply@svc.example" || got.recipient != "ada@example.com" || !got.secure || s.signedIn() != "robot" {
		t.Errorf("sent from %s to %s, encrypted %v, by %q", got.sender, got.recipient, got.secure, s.signedIn())
	}
	if want := "Open https://svc.example/#" + token + "\r\nBest\r\n.\r\nsvc"; strings.TrimSpace(got.body) != want {
		t.Errorf("the text is %q, want %q", got.body, want)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.header.Get("Subject"))
	if err != nil || subject != "Héllo  Bcc: eve@example.com" {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	if got.header.Get("Bcc") != "" || !strings.Contains(got.header.Get("From"), "<noreply@svc.example>") ||
		got.header.Get("Message-Id") == "" || got.header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("header %v", got.header)
	}
	if text := h.log.text(); strings.Contains(text, token) || !strings.Contains(text, "ada@example.com") {
		t.Errorf("the log contains the text, or not the recipient: %s", text)
	}
}

func TestUrgent_SentFirst(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	h := newFixture(t, &countingTransport{hold: hold})
	for range 20 {
		h.queue("ada@example.com", "Join", "text")
	}
	err := pg.InTx(t.Context(), h.db, func(tx *sqlx.Tx) error {
		return mail.Urgent{Outbox: &h.Outbox}.Send(t.Context(), tx, "eve@example.com", "Set a new password", token)
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, &h.Outbox)
	var attempted []string
	eventually(t, func() bool {
		err := h.db.SelectContext(context.Background(), &attempted, `SELECT recipient FROM mail_outbox WHERE attempts > 0`)
		return err == nil && len(attempted) > 0
	})
	if !slices.Contains(attempted, "eve@example.com") {
		t.Errorf("the first mails are %v", attempted)
	}
}

func TestSend_RolledBackIsNotSent(t *testing.T) {
	h := newFixture(t, &countingTransport{})
	failure := errors.New("no")
	err := pg.InTx(t.Context(), h.db, func(tx *sqlx.Tx) error {
		if err := h.Send(t.Context(), tx, "ada@example.com", "Hi", "text"); err != nil {
			return err
		}
		return failure
	})
	var n int
	if getErr := h.db.Get(&n, `SELECT count(*) FROM mail_outbox`); getErr != nil || n != 0 || !errors.Is(err, failure) {
		t.Errorf("%d mails queued, %v, %v", n, err, getErr)
	}
}

func TestSend_RefusesInvalidMail(t *testing.T) {
	h := newFixture(t, &countingTransport{})
	for name, m := range map[string][2]string{
		"no address": {"ada", "text"}, "two addresses": {"a@example.com, b@example.com", "text"},
		"another header": {"a@example.com\r\nBcc: b@example.com", "text"},
		"a long text":    {"a@example.com", strings.Repeat("x", 129<<10)},
	} {
		err := pg.InTx(t.Context(), h.db, func(tx *sqlx.Tx) error { return h.Send(t.Context(), tx, m[0], "Hi", m[1]) })
		if err == nil {
			t.Errorf("%s: the mail was queued", name)
		}
	}
}

func TestRun_PermanentErrorIsNotRetried(t *testing.T) {
	s := serve(t, false)
	h := newFixture(t, dialer(t, "smtp://localhost:"+s.port, s))
	s.refuse("gone@example.com", reply(550, "no such mailbox"))
	h.queue("gone@example.com", "Hi", token)
	run(t, &h.Outbox)
	dead := h.await("dead", func(r row) bool { return r.State == "dead" })
	if dead.Attempts != 1 || !dead.Wiped || dead.Error == nil || !strings.Contains(*dead.Error, "no such mailbox") {
		t.Errorf("the row is %+v", dead)
	}
}

func TestRun_RetriesWithBackoff(t *testing.T) {
	s := serve(t, false)
	h := newFixture(t, dialer(t, "smtp://localhost:"+s.port, s))
	s.refuse("busy@example.com", reply(451, "come again"))
	h.queue("busy@example.com", "Hi", token)
	run(t, &h.Outbox)
	first := h.await("tried", failed(1))
	h.due()
	second := h.await("tried twice", failed(2))
	h.due()
	third := h.await("tried three times", failed(3))
	if math.Abs(first.Waits-1200) > 60 || math.Abs(second.Waits-2400) > 60 || math.Abs(third.Waits-3600) > 60 {
		t.Errorf("got pauses of %v, %v and %v s, want 20 minutes, 40 minutes and at most an hour", first.Waits, second.Waits, third.Waits)
	}
	if first.Wiped || !strings.Contains(*first.Error, "come again") {
		t.Errorf("after the first attempt the row is %+v: %s", first, *first.Error)
	}
	s.refuse("busy@example.com", nil)
	h.due()
	h.await("sent", func(r row) bool { return r.State == "sent" && r.Attempts == 4 })
}

func TestRun_StopsAfterLastAttempt(t *testing.T) {
	s := serve(t, false)
	h := newFixture(t, dialer(t, "smtp://localhost:"+s.port, s))
	h.RetryPolicy.Attempts = 3
	s.refuse("busy@example.com", reply(451, "come again"))
	h.queue("busy@example.com", "Hi", token)
	run(t, &h.Outbox)
	for n := range 2 {
		h.await("tried", failed(n+1))
		h.due()
	}
	dead := h.await("dead", func(r row) bool { return r.State == "dead" })
	if dead.Attempts != 3 || !dead.Wiped || !strings.Contains(*dead.Error, "come again") {
		t.Errorf("after its last attempt the row is %+v", dead)
	}
}

func TestRun_AttemptTimesOut(t *testing.T) {
	port, dialed := startHangingServer(t)
	h := newFixture(t, plain(t, port))
	h.RetryPolicy.Timeout = 200 * time.Millisecond
	h.queue("ada@example.com", "Hi", token)
	run(t, &h.Outbox)
	waiting := h.await("given up for now", failed(1))
	if dialed() != 1 || !strings.Contains(*waiting.Error, "timed out") {
		t.Errorf("%d connections, and the error %q", dialed(), *waiting.Error)
	}
}

func TestRun_StopsWhileServerHangs(t *testing.T) {
	port, dialed := startHangingServer(t)
	h := newFixture(t, plain(t, port))
	h.RetryPolicy.Timeout, h.RetryPolicy.Grace = time.Minute, 50*time.Millisecond
	h.queue("ada@example.com", "Hi", token)
	stop := run(t, &h.Outbox)
	eventually(t, func() bool { return dialed() > 0 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Run returned after %v", took)
	}
	if r := h.row(); r.State != "queued" || r.Error == nil {
		t.Errorf("the mail is not queued: %+v", r)
	}
}

// interruptedTransport ends Run before it delivers.
type interruptedTransport struct {
	mail.Transport
	end func()
}

func (e interruptedTransport) Deliver(ctx context.Context, m mail.Message) error {
	e.end()
	return e.Transport.Deliver(ctx, m)
}

func TestRun_FinishesAttemptOnShutdown(t *testing.T) {
	s := serve(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	h := newFixture(t, interruptedTransport{dialer(t, "smtp://localhost:"+s.port, s), cancel})
	h.queue("ada@example.com", "Hi", token)
	h.Run(ctx)
	if r := h.row(); r.State != "sent" || len(s.received()) != 1 {
		t.Errorf("the interrupted mail is %+v", r)
	}
}

// crashingTransport simulates a process that crashes after a delivery: it closes the
// database before the result can be recorded.
type crashingTransport struct {
	mail.Transport
	die func()
}

func (d crashingTransport) Deliver(ctx context.Context, m mail.Message) error {
	err := d.Transport.Deliver(ctx, m)
	d.die()
	return err
}

func TestRun_ResendAfterCrashReusesMessageID(t *testing.T) {
	s := serve(t, false)
	transport := dialer(t, "smtp://localhost:"+s.port, s)
	h := newFixture(t, transport)
	h.queue("ada@example.com", "Hi", "text")
	doomedPool := dbtest.Open(t, h.dsn, pg.Options{Role: pg.AppRole})
	doomed := h.replica(doomedPool, crashingTransport{transport, func() { doomedPool.Close() }})
	stop := run(t, &doomed)
	eventually(t, func() bool { return len(s.received()) > 0 })
	stop()
	claimed := h.row()
	if claimed.State != "queued" || claimed.Waits < 60 {
		t.Fatalf("after the crash: got %+v, want a leased mail", claimed)
	}
	h.due()
	run(t, &h.Outbox)
	h.await("sent", func(r row) bool { return r.State == "sent" && r.Attempts == 2 })
	mails := s.received()
	if len(mails) != 2 || mails[0].header.Get("Message-Id") != mails[1].header.Get("Message-Id") {
		t.Errorf("got %d mails with the IDs %q and %q", len(mails), mails[0].header.Get("Message-Id"), mails[len(mails)-1].header.Get("Message-Id"))
	}
}

func TestRun_ReplicasShareTheQueue(t *testing.T) {
	const mails, replicas = 60, 3
	hold := make(chan struct{})
	close(hold)
	all := &countingTransport{hold: hold}
	h := newFixture(t, all)
	for range mails {
		h.queue("ada@example.com", "Hi", "text")
	}
	var started sync.WaitGroup
	for range replicas {
		started.Go(func() {
			replica := h.replica(dbtest.Open(t, h.dsn, pg.Options{MaxOpen: 10, Role: pg.AppRole}), all)
			run(t, &replica)
		})
	}
	started.Wait()
	eventually(t, func() bool {
		var left int
		if err := h.db.Get(&left, `SELECT count(*) FROM mail_outbox WHERE state <> 'sent'`); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	counts := all.counts()
	for id, n := range counts {
		if n != 1 {
			t.Errorf("mail %s was sent %d times", id, n)
		}
	}
	if len(counts) != mails {
		t.Errorf("%d mails were sent, want %d", len(counts), mails)
	}
}
