package contact_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/platform/contact"
	"github.com/browser-svc/svc/cloud/internal/platform/mail"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

func newService(t *testing.T, recipient string, mailer contact.Mailer) *contact.Service {
	t.Helper()
	return &contact.Service{DB: dbtest.Open(t, dbtest.NewDSN(t), pg.Options{Role: pg.AppRole}), Mailer: mailer, To: recipient}
}

func message(address string) contact.Message {
	return contact.Message{Name: "Ada", Email: "ada@example.com", Text: "Hello", ClientAddress: address}
}

// submit sends a message and returns the refusal, if any.
func submit(t *testing.T, s *contact.Service, address string) *fault.Error {
	t.Helper()
	receipt, err := s.Submit(t.Context(), message(address))
	if err == nil && (receipt.ID.Version() != 7 || time.Since(receipt.CreatedAt).Abs() > time.Minute) {
		t.Errorf("the receipt is %+v", receipt)
	}
	if err != nil && !fault.Is(err, fault.RateLimited) {
		t.Fatalf("from %s: %v", address, err)
	}
	return fault.From(err)
}

func countMessages(t *testing.T, s *contact.Service) int {
	t.Helper()
	var n int
	if err := s.DB.Get(&n, `SELECT count(*) FROM contact_messages`); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSubmit_RefusesSixthMessageWithinHour(t *testing.T) {
	s := newService(t, "", nil)
	for n := range contact.Limit {
		if refusal := submit(t, s, "203.0.113.7"); refusal != nil {
			t.Fatalf("message %d: %v", n+1, refusal)
		}
		// Ten minutes pass.
		s.DB.MustExec(`UPDATE contact_messages SET created_at = created_at - interval '10 minutes'`)
	}
	refusal := submit(t, s, "203.0.113.7") // the first was 50 minutes ago
	if refusal == nil || refusal.RetryAfter < 9*time.Minute || refusal.RetryAfter > 10*time.Minute {
		t.Fatalf("sixth message: %+v; want a retry after ten minutes", refusal)
	}
	if submit(t, s, "203.0.113.8") != nil {
		t.Error("another address was refused")
	}
	s.DB.MustExec(`UPDATE contact_messages SET created_at = created_at - interval '10 minutes'`)
	if refusal := submit(t, s, "203.0.113.7"); refusal != nil {
		t.Errorf("an hour after the first: %v", refusal)
	}
	if submit(t, s, "203.0.113.7") == nil {
		t.Error("a sixth message within the hour was accepted")
	}
	if n := countMessages(t, s); n != 7 {
		t.Errorf("%d messages are stored, want 7", n)
	}
}

func TestSubmit_LimitIsExactInParallel(t *testing.T) {
	const parallel = 32
	dsn := dbtest.NewDSN(t)
	var replicas []*contact.Service
	for range 2 {
		replicas = append(replicas, &contact.Service{DB: dbtest.Open(t, dsn, pg.Options{MaxOpen: 16, Role: pg.AppRole})})
	}
	for round, address := range []string{"203.0.113.7", "2001:db8::1"} {
		var successes, refusals atomic.Int64
		var all sync.WaitGroup
		start := make(chan struct{})
		for n := range parallel {
			all.Go(func() {
				<-start
				_, err := replicas[n%2].Submit(context.Background(), message(address))
				switch {
				case err == nil:
					successes.Add(1)
				case fault.Is(err, fault.RateLimited):
					refusals.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
		if successes.Load() != contact.Limit || refusals.Load() != parallel-contact.Limit {
			t.Errorf("round %d: %d accepted and %d refused of %d; want %d", round, successes.Load(), refusals.Load(), parallel, contact.Limit)
		}
	}
}

func TestSubmit_CountsByNetwork(t *testing.T) {
	for name, test := range map[string]struct {
		full, other string
		same        bool
	}{
		"the same IPv4 address":                {"203.0.113.7", "203.0.113.7", true},
		"a neighbouring IPv4 address":          {"203.0.113.7", "203.0.113.6", false},
		"an IPv4 address in IPv6 clothes":      {"203.0.113.7", "::ffff:203.0.113.7", true},
		"another one in IPv6 clothes":          {"::ffff:203.0.113.7", "::ffff:203.0.113.8", false},
		"the same /64":                         {"2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", true},
		"another /64":                          {"2001:db8:0:1::1", "2001:db8:0:2::1", false},
		"a link-local address with its zone":   {"fe80::1%eth0", "fe80::2%eth1", true},
		"what is no address":                   {"", "@", true},
		"what is no address, beside an IPv4":   {"", "0.0.0.0", false},
		"loopback of the other family":         {"127.0.0.1", "::1", false},
		"an address of the same /32, not /128": {"2001:db8:1::1", "2001:db8:2::1", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, "", nil)
			for range contact.Limit {
				if refusal := submit(t, s, test.full); refusal != nil {
					t.Fatal(refusal)
				}
			}
			if refused := submit(t, s, test.other) != nil; refused != test.same {
				t.Errorf("%s after five of %s: refused %v, want %v", test.other, test.full, refused, test.same)
			}
		})
	}
}

// newOutbox returns the actual outbox on the service's database, and a function that
// returns its mails.
func newOutbox(t *testing.T, db *sqlx.DB) (*mail.Outbox, func() []string) {
	t.Helper()
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	waiting := func() []string {
		found := []string{}
		if err := db.Select(&found, `SELECT recipient || '|' || subject FROM mail_outbox ORDER BY id`); err != nil {
			t.Fatal(err)
		}
		return found
	}
	return &mail.Outbox{DB: db, Sealer: box, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, waiting
}

func TestSubmit_SendsMail(t *testing.T) {
	s := newService(t, "team@svc.example", nil)
	queue, waiting := newOutbox(t, s.DB)
	s.Mailer = queue
	m := message("203.0.113.7")
	m.Subject, m.Company = "More\r\nprofiles", "Engines"
	if _, err := s.Submit(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(waiting(), "\n"); got != "team@svc.example|Message from Ada: More  profiles" {
		t.Errorf("queued: %s", got)
	}
	for range contact.Limit {
		submit(t, s, "203.0.113.7")
	}
	if n := len(waiting()); n != contact.Limit {
		t.Errorf("%d mails for %d accepted messages", n, contact.Limit)
	}
}

// capturingMailer is a Mailer that captures the text.
type capturingMailer struct{ text *string }

func (r capturingMailer) Send(_ context.Context, _ *sqlx.Tx, _, _, text string) error {
	*r.text = text
	return nil
}

func TestSubmit_MailHasAllFields(t *testing.T) {
	var text string
	s := newService(t, "team@svc.example", capturingMailer{&text})
	receipt, err := s.Submit(t.Context(), contact.Message{Name: "Ada", Email: "ada@example.com", Company: "Engines", Subject: "Prices", Text: "Line 1\nLine 2", ClientAddress: "203.0.113.7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Ada <ada@example.com>", "Company: Engines", "Subject: Prices", "Line 1\nLine 2", receipt.ID.String()} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

// failingMailer is a Mailer that fails.
type failingMailer struct{}

var errBroken = errors.New("broken")

func (failingMailer) Send(context.Context, *sqlx.Tx, string, string, string) error { return errBroken }

func TestSubmit_RollsBackWhenMailFails(t *testing.T) {
	s := newService(t, "team@svc.example", failingMailer{})
	if _, err := s.Submit(t.Context(), message("203.0.113.7")); !errors.Is(err, errBroken) || countMessages(t, s) != 0 {
		t.Errorf("%v, and %d messages are stored", err, countMessages(t, s))
	}
}
