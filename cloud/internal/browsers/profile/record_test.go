package profile

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/fault"
)

// auditTable is a Recorder that writes to a table, so that rolled-back records are not
// visible. It returns an error for the action `fails`.
type auditTable struct{ fails string }

var errRefused = errors.New("refused")

func (r auditTable) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, targetID string, details map[string]any) error {
	if action == r.fails {
		return errRefused
	}
	text, err := json.Marshal(details)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO recorded (org, line) VALUES ($1, $2)`, orgID, strings.Join([]string{action, targetID, string(text)}, " "))
	return err
}

// recording sets the fixture's Recorder and returns a function that returns the
// records.
func (f *fixture) recording(fails string) (lines func() []string) {
	f.t.Helper()
	f.exec(`CREATE TABLE recorded (n serial, org uuid, line text)`)
	f.svc.Recorder = auditTable{fails}
	return func() []string {
		f.t.Helper()
		found := []string{}
		if err := f.svc.DB.Select(&found, `SELECT line FROM recorded WHERE org = $1 ORDER BY n`, f.org); err != nil {
			f.t.Fatal(err)
		}
		return found
	}
}

func TestAudit_RecordsChangesWithoutSecrets(t *testing.T) {
	f := newFixture(t)
	lines := f.recording("")
	p := f.create(withProxy())
	copied, err := f.svc.Duplicate(t.Context(), f.org, p.ID, f.user, nil)
	if err != nil {
		t.Fatal(err)
	}
	patch := json.RawMessage(`{"notes":"n","proxy":{"password":"correct-horse"},"locale":null}`)
	if _, err := f.svc.Update(t.Context(), f.org, p.ID, nil, patch); err != nil {
		t.Fatal(err)
	}
	if err := f.svc.Delete(t.Context(), f.org, copied.ID, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"profile.created " + p.ID.String() + ` {"name":"Proxied"}`,
		"profile.duplicated " + copied.ID.String() + ` {"name":"Proxied (copy)","sourceId":"` + p.ID.String() + `"}`,
		"profile.updated " + p.ID.String() + ` {"fields":["locale","notes","proxy"],"name":"Proxied"}`,
		"profile.deleted " + copied.ID.String() + ` {"name":"Proxied (copy)"}`,
	}
	if diff := cmp.Diff(want, lines()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

func TestAudit_RefusalsAreNotRecorded(t *testing.T) {
	f := newFixture(t)
	p := f.create(named("One"))
	f.exec(`UPDATE subscriptions SET base_profile_limit = 1`)
	lines := f.recording("")
	stale := new(int64(9))
	_, err := f.svc.Create(t.Context(), f.org, f.user, named("Two"))
	wantFault(t, err, fault.Forbidden)
	_, err = f.svc.Duplicate(t.Context(), f.org, p.ID, f.user, nil)
	wantFault(t, err, fault.Forbidden)
	_, err = f.svc.Update(t.Context(), f.org, p.ID, stale, json.RawMessage(`{"notes":"n"}`))
	wantFault(t, err, fault.Conflict)
	wantFault(t, f.svc.Delete(t.Context(), f.org, p.ID, stale), fault.Conflict)
	f.live.set(p.ID, 1)
	wantFault(t, f.svc.Delete(t.Context(), f.org, p.ID, nil), fault.Conflict)
	if diff := cmp.Diff([]string{}, lines()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

func TestAudit_FailureRollsBack(t *testing.T) {
	for action, change := range map[string]func(f *fixture, id uuid.UUID) error{
		created: func(f *fixture, _ uuid.UUID) error {
			_, err := f.svc.Create(t.Context(), f.org, f.user, named("Two"))
			return err
		},
		duplicated: func(f *fixture, id uuid.UUID) error {
			_, err := f.svc.Duplicate(t.Context(), f.org, id, f.user, nil)
			return err
		},
		updated: func(f *fixture, id uuid.UUID) error {
			_, err := f.svc.Update(t.Context(), f.org, id, nil, json.RawMessage(`{"notes":"changed"}`))
			return err
		},
		deleted: func(f *fixture, id uuid.UUID) error { return f.svc.Delete(t.Context(), f.org, id, nil) },
	} {
		t.Run(action, func(t *testing.T) {
			f := newFixture(t)
			p := f.create(named("One"))
			f.recording(action)
			if err := change(f, p.ID); !errors.Is(err, errRefused) {
				t.Errorf("error %v, want the Recorder's", err)
			}
			if n := f.rows(f.org); n != 1 || f.get(p.ID).Version != p.Version {
				t.Errorf("got %d profiles, the first with version %d; want no change", n, f.get(p.ID).Version)
			}
		})
	}
}
