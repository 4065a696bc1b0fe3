package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

const (
	testPassword = "correct horse battery staple"
	testSeed     = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ" // of RFC 6238 for SHA-1
	testOrigin   = "https://accounts.example.com"
)

// fixture is a Service on its own database, with one organization and one profile.
type fixture struct {
	*Service
	t            *testing.T
	system       *sqlx.DB
	clock        *clock.Fake
	org, profile uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	f := &fixture{t: t, system: dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole}), clock: clock.NewFake(time.Unix(59, 0))}
	db := dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole, MaxOpen: 12})
	f.Service = &Service{DB: db, Clock: f.clock, Sealer: newBox(t, 1), Audit: recorder{}}
	f.org, f.profile = f.tenant()
	return f
}

// recorder writes events as the audit log does, but without their source.
type recorder struct{}

func (recorder) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error {
	text, err := json.Marshal(details)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO audit_events (id, organization_id, action, target_id, actor_type, details, created_at)
		VALUES ($1, $2, $3, $4, 'system', $5, now())`, uuid.Must(uuid.NewV7()), orgID, action, targetID, string(text))
	return err
}

// newBox returns a box with a key for each id; it encrypts with the first.
func newBox(t *testing.T, ids ...byte) *secret.Box {
	t.Helper()
	var keys []secret.Key
	for _, id := range ids {
		keys = append(keys, secret.Key{ID: id, Bytes: bytes.Repeat([]byte{id}, secret.KeySize)})
	}
	b, err := secret.New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exec runs a statement as the system.
func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := f.system.ExecContext(f.t.Context(), query, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) tenant() (org, profile uuid.UUID) {
	f.t.Helper()
	org = uuid.New()
	f.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'x', $2, now())`, org, org.String())
	return org, f.newProfile(org)
}

func (f *fixture) newProfile(org uuid.UUID) uuid.UUID {
	f.t.Helper()
	id := uuid.New()
	f.exec(`INSERT INTO profiles (id, organization_id, name, browser_version, created_at, updated_at) VALUES ($1, $2, 'p', 156, now(), now())`, id, org)
	return id
}

// session returns a session of the profile whose license slot has the state.
func (f *fixture) session(org, profile uuid.UUID, state string) uuid.UUID {
	f.t.Helper()
	id := uuid.New()
	f.exec(`INSERT INTO license_slots (id, organization_id, profile_id, session_id, machine_id, boot_id, state, reserved_at, lease_until, released_at)
		VALUES (gen_random_uuid(), $1, $2, $3, 'm', gen_random_uuid(), $4::license_slot_state, now(), now() + interval '5 minutes', CASE WHEN $4::license_slot_state = 'released' THEN now() END)`,
		org, profile, id, state)
	return id
}

// draft is a secret with all values.
func draft(name string) Draft {
	return Draft{
		Fields:   Fields{Name: name, Username: new("robot"), Origins: []string{testOrigin}},
		Password: new(testPassword), TOTPSeed: new(testSeed),
	}
}

func (f *fixture) create(d Draft) Secret {
	f.t.Helper()
	s, err := f.Create(f.t.Context(), f.org, d)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) update(id uuid.UUID, patch string) Secret {
	f.t.Helper()
	s, err := f.Update(f.t.Context(), f.org, id, json.RawMessage(patch))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// use uses a field for a new running session of the profile.
func (f *fixture) use(reference string, field Field) (Value, error) {
	f.t.Helper()
	return f.Use(f.t.Context(), f.org, Use{
		Secret: reference, SessionID: f.session(f.org, f.profile, "running"), Field: field, Origin: testOrigin,
	})
}

// assertFault checks the kind of an error and the field that its first detail names.
func assertFault(t *testing.T, err error, kind fault.Kind, field string) {
	t.Helper()
	got := fault.From(err)
	if got == nil || got.Kind != kind {
		t.Errorf("got %v, want a fault of kind %v", err, kind)
	} else if field != "" && (len(got.Details) == 0 || got.Details[0].Field != field) {
		t.Errorf("got details %+v, want the field %s", got.Details, field)
	}
}

// events returns the actions and the details of the organization's audit events.
func (f *fixture) events() (actions []string, details string) {
	f.t.Helper()
	var rows []struct {
		Action  string `db:"action"`
		Details string `db:"details"`
	}
	err := f.system.SelectContext(f.t.Context(), &rows, `SELECT action, details FROM audit_events WHERE organization_id = $1 ORDER BY id`, f.org)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range rows {
		actions = append(actions, r.Action)
		details += r.Details + "\n"
	}
	return actions, details
}
