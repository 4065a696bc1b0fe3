package org_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

type fixture struct {
	*org.Service
	t           *testing.T
	db          *sqlx.DB // of the superuser
	clock       *clock.Fake
	provisioner *provisioner
	ending      *recordingEnder
	mail        *outbox
	audit       *auditRecorder
	users       *users
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	f := fixture{
		t: t, db: dbtest.Open(t, dsn, pg.Options{}), mail: &outbox{}, audit: &auditRecorder{}, ending: &recordingEnder{},
		clock: clock.NewFake(time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)),
	}
	f.users = &users{db: f.db}
	plans := plan.New(f.db)
	f.provisioner = &provisioner{plans: plans, clock: f.clock}
	f.Service = &org.Service{
		DB:     dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole}),
		System: dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole}),
		Clock:  f.clock, Provisioner: f.provisioner, Ender: f.ending, Limits: plans,
		Users: f.users, Mail: f.mail, Audit: f.audit, PublicURL: &url.URL{Scheme: "https", Host: "cloud.example.com"},
	}
	return f
}

// provisioner subscribes organizations to the team plan (ten members) and records them,
// or fails.
type provisioner struct {
	plans *plan.Service
	clock clock.Clock
	orgs  []uuid.UUID
	err   error
	free  bool // subscribes to the free plan instead

	mu sync.Mutex
}

func (p *provisioner) Provision(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	var members int
	if err := tx.GetContext(ctx, &members, `SELECT count(*) FROM memberships WHERE organization_id = $1`, orgID); err != nil {
		return err
	}
	if members != 1 {
		return errors.New("the owner is not there yet")
	}
	p.mu.Lock()
	p.orgs = append(p.orgs, orgID)
	p.mu.Unlock()
	slug := "team"
	if p.free {
		slug = plan.Free
	}
	return errors.Join(p.plans.Subscribe(ctx, tx, orgID, slug, p.clock.Now()), p.err)
}

// recordingEnder records the organizations that end, which must still exist, or fails.
type recordingEnder struct {
	orgs []uuid.UUID
	err  error
}

func (e *recordingEnder) EndOrganization(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID) error {
	var id uuid.UUID
	if err := tx.GetContext(ctx, &id, `SELECT id FROM organizations WHERE id = $1`, orgID); err != nil {
		return err
	}
	e.orgs = append(e.orgs, orgID)
	return e.err
}

// users are the accounts of the database. They count invitations or refuse them.
type users struct {
	db      *sqlx.DB
	refusal error

	mu    sync.Mutex
	spent []string
}

func (u *users) Address(ctx context.Context, userID uuid.UUID) (email string, verified bool, err error) {
	err = u.db.QueryRowxContext(ctx,
		`SELECT email, email_verified_at IS NOT NULL FROM users WHERE id = $1`, userID).Scan(&email, &verified)
	return email, verified, err
}

// outbox keeps the mails.
type outbox struct {
	mu    sync.Mutex
	mails []mail
	err   error
}

type mail struct{ recipient, subject, text string }

func (o *outbox) Send(_ context.Context, _ *sqlx.Tx, recipient, subject, text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mails = append(o.mails, mail{recipient, subject, text})
	return o.err
}

var tokenPattern = regexp.MustCompile(`#token=([A-Za-z0-9_-]{43})\n`)

// token returns the token of the last mail to the address.
func (f fixture) token(email string) string {
	f.t.Helper()
	f.mail.mu.Lock()
	defer f.mail.mu.Unlock()
	for _, m := range slices.Backward(f.mail.mails) {
		if m.recipient == email {
			return tokenPattern.FindStringSubmatch(m.text)[1]
		}
	}
	f.t.Fatalf("no mail to %s", email)
	return ""
}

// auditRecorder keeps audit events as "action target".
type auditRecorder struct {
	mu      sync.Mutex
	entries []string
}

func (j *auditRecorder) Record(_ context.Context, _ *sqlx.Tx, _ uuid.UUID, action, targetID string, _ map[string]any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, action+" "+targetID)
	return nil
}

// recorded returns the events since the last call.
func (f fixture) recorded() []string {
	f.audit.mu.Lock()
	defer f.audit.mu.Unlock()
	entries := f.audit.entries
	f.audit.entries = nil
	return entries
}

// user creates an account with a verified address.
func (f fixture) user(name string) uuid.UUID {
	f.t.Helper()
	id := uuid.Must(uuid.NewV7())
	f.db.MustExec(`
		INSERT INTO users (id, email, name, password_hash, created_at, email_verified_at)
		VALUES ($1, $2, $3, '-', now(), now())`, id, address(name), name)
	return id
}

func address(name string) string { return strings.ToLower(name) + "@example.com" }

func (f fixture) create(userID uuid.UUID, name, slug string) org.Organization {
	f.t.Helper()
	o, err := f.Create(f.t.Context(), userID, org.NewOrganization{Name: name, Slug: slug})
	if err != nil {
		f.t.Fatal(err)
	}
	f.clock.Advance(time.Second)
	return o
}

// join creates a user who is a member.
func (f fixture) join(orgID uuid.UUID, name string, role org.Role) uuid.UUID {
	f.t.Helper()
	id := f.user(name)
	f.db.MustExec(`INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)`,
		orgID, id, role, f.clock.Now())
	f.clock.Advance(time.Second)
	return id
}

// team returns an organization with an owner, an admin and a member.
type team struct {
	id                   uuid.UUID
	owner, admin, member uuid.UUID
}

func (f fixture) team() team {
	f.t.Helper()
	owner := f.user("Olga")
	id := f.create(owner, "Analytical Engines", "engines").ID
	tm := team{id: id, owner: owner, admin: f.join(id, "Adam", org.Admin), member: f.join(id, "Mary", org.Member)}
	f.recorded()
	return tm
}

func (tm team) id3() map[org.Role]uuid.UUID {
	return map[org.Role]uuid.UUID{org.Owner: tm.owner, org.Admin: tm.admin, org.Member: tm.member}
}

func (f fixture) invite(orgID, actor uuid.UUID, email string, role org.Role) org.Invitation {
	f.t.Helper()
	i, err := f.Invite(f.t.Context(), orgID, actor, org.NewInvitation{Email: email, Role: role})
	if err != nil {
		f.t.Fatalf("invite %s: %v", email, err)
	}
	f.clock.Advance(time.Second)
	return i
}

func (f fixture) limitMembers(orgID uuid.UUID, limit *int) {
	f.t.Helper()
	f.db.MustExec(`UPDATE subscriptions SET base_member_limit = $2 WHERE organization_id = $1`, orgID, limit)
}

// count counts the rows of the table that match the condition.
func (f fixture) count(table string, args ...any) int {
	f.t.Helper()
	var n int
	if err := f.db.Get(&n, `SELECT count(*) FROM `+table, args...); err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f fixture) role(orgID, userID uuid.UUID) string {
	f.t.Helper()
	role, err := f.Role(f.t.Context(), orgID, userID)
	if err != nil {
		f.t.Fatal(err)
	}
	return role
}

// wantKind checks the kind of an error and that its message contains the text.
func wantKind(t *testing.T, what string, err error, kind fault.Kind, text string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(fault.From(err).Message, text) {
		t.Errorf("%s: error %v, want kind %d with %q", what, err, kind, text)
	}
}

// concurrently calls fn n times concurrently and counts the kinds of its errors. Errors
// without a kind fail the test.
func (f fixture) concurrently(n int, fn func(i int) error) (done int, refused map[fault.Kind]int) {
	f.t.Helper()
	for _, pool := range []*sqlx.DB{f.DB, f.System, f.db} {
		f.connect(pool)
	}
	begin, results := make(chan struct{}), make(chan error, n)
	for i := range n {
		go func() {
			<-begin
			results <- fn(i)
		}()
	}
	close(begin)
	refused = map[fault.Kind]int{}
	for range n {
		err := <-results
		var refusal *fault.Error
		switch {
		case err == nil:
			done++
		case errors.As(err, &refusal):
			refused[refusal.Kind]++
		default:
			f.t.Error(fmt.Errorf("concurrent call: %w", err))
		}
	}
	return done, refused
}

// connect opens all connections of the pool. Otherwise concurrent calls would wait for
// connections instead of locks.
func (f fixture) connect(pool *sqlx.DB) {
	f.t.Helper()
	for range pool.Stats().MaxOpenConnections {
		c, err := pool.Connx(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		defer c.Close()
	}
}
