package mail_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/platform/mail"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

const sender = "svc <noreply@svc.example>"

// fixture is an outbox on its own database.
type fixture struct {
	t   *testing.T
	dsn string
	db  *sqlx.DB
	log *logs
	mail.Outbox
}

func newFixture(t *testing.T, transport mail.Transport) *fixture {
	t.Helper()
	h := &fixture{t: t, dsn: dbtest.NewDSN(t), log: &logs{}}
	h.db = dbtest.Open(t, h.dsn, pg.Options{Role: pg.AppRole})
	h.Outbox = h.replica(h.db, transport)
	return h
}

// replica returns another Outbox on the same database.
func (h *fixture) replica(db *sqlx.DB, transport mail.Transport) mail.Outbox {
	h.t.Helper()
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	if err != nil {
		h.t.Fatal(err)
	}
	return mail.Outbox{DB: db, Sealer: box, Transport: transport, Logger: slog.New(slog.NewJSONHandler(h.log, nil)),
		RetryPolicy: mail.RetryPolicy{Every: 5 * time.Millisecond, Timeout: 5 * time.Second, Backoff: 20 * time.Minute}}
}

// queue sends a mail in its own transaction.
func (h *fixture) queue(recipient, subject, text string) {
	h.t.Helper()
	err := pg.InTx(h.t.Context(), h.db, func(tx *sqlx.Tx) error { return h.Send(h.t.Context(), tx, recipient, subject, text) })
	if err != nil {
		h.t.Fatal(err)
	}
}

// run starts Outbox.Run and returns a function that ends it.
func run(t *testing.T, o *mail.Outbox) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// row is the stored state of the only mail.
type row struct {
	State    string  `db:"state"`
	Attempts int     `db:"attempts"`
	Error    *string `db:"last_error"`
	Wiped    bool    `db:"wiped"`
	Waits    float64 `db:"waits"` // seconds until the mail is due
}

func (h *fixture) row() row {
	h.t.Helper()
	var r row
	err := h.db.GetContext(context.Background(), &r, `SELECT state, attempts, last_error, encrypted_text IS NULL AS wiped,
		EXTRACT(epoch FROM due_at - clock_timestamp()) AS waits FROM mail_outbox`)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// await waits until the only mail satisfies the condition.
func (h *fixture) await(what string, as func(row) bool) row {
	h.t.Helper()
	var r row
	defer func() {
		if h.t.Failed() {
			h.t.Logf("not %s: %+v\n%s", what, r, h.log.text())
		}
	}()
	eventually(h.t, func() bool { r = h.row(); return as(r) })
	return r
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("the condition was not reached")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// failed reports whether an attempt has failed and was recorded: only then is the pause
// longer than a lease.
func failed(attempts int) func(row) bool {
	return func(r row) bool { return r.Attempts == attempts && r.State == "queued" && r.Waits > 600 }
}

// due makes all queued mails due.
func (h *fixture) due() {
	h.t.Helper()
	if _, err := h.db.ExecContext(context.Background(), `UPDATE mail_outbox SET due_at = clock_timestamp()`); err != nil {
		h.t.Fatal(err)
	}
}

// dialer returns a transport to a server of the test.
func dialer(t *testing.T, address string, s *server) *mail.SMTP {
	t.Helper()
	transport, err := mail.ParseSMTP(address, sender)
	if err != nil {
		t.Fatal(err)
	}
	transport.RootCAs = s.roots
	return transport
}

// plain returns a transport to a server without TLS.
func plain(t *testing.T, port string) *mail.SMTP {
	t.Helper()
	return dialer(t, "smtp://localhost:"+port+"?tls=none", &server{})
}

// logs collects log records.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// decoded returns the text of a mail.
func decoded(m *netmail.Message) io.Reader {
	switch strings.ToLower(m.Header.Get("Content-Transfer-Encoding")) {
	case "quoted-printable":
		return quotedprintable.NewReader(m.Body)
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, m.Body)
	}
	return m.Body
}

// countingTransport counts the deliveries of each mail and delivers nothing.
type countingTransport struct {
	mu         sync.Mutex
	deliveries map[uuid.UUID]int
	hold       <-chan struct{}
}

func (c *countingTransport) Deliver(ctx context.Context, m mail.Message) error {
	c.mu.Lock()
	if c.deliveries == nil {
		c.deliveries = map[uuid.UUID]int{}
	}
	c.deliveries[m.ID]++
	c.mu.Unlock()
	select {
	case <-c.hold:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cut off: %w", ctx.Err())
	}
}

func (c *countingTransport) counts() map[uuid.UUID]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[uuid.UUID]int{}
	for id, n := range c.deliveries {
		counts[id] = n
	}
	return counts
}
