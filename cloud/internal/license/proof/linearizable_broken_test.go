package proof_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// defect is a bug of a plainLimiter.
type defect int

const (
	noDefect    defect = iota // none; shows that the others are rejected for their defect only
	unlocked                  // counts first, then inserts
	earlyAnswer               // answers before the commit
	doubleEnd                 // a repeated end of a session counts twice
	leakedSlot                // the slot of a cancelled caller is not released
	staleCount                // returns an outdated count
)

// plainLimiter is a simple limiter on the same tables.
type plainLimiter struct {
	db      *sqlx.DB
	defect  defect
	commits sync.WaitGroup
}

func (l *plainLimiter) Close() error { l.commits.Wait(); return nil }

// tx runs fn in a transaction that ignores cancellation of the caller.
func (l *plainLimiter) tx(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	if l.defect != earlyAnswer {
		return pg.InTx(context.WithoutCancel(ctx), l.db, fn)
	}
	tx, err := l.db.BeginTxx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	l.commits.Go(func() {
		time.Sleep(rand.N(5 * time.Millisecond))
		_ = tx.Commit()
	})
	return nil
}

// Authorize implements limiter.
func (l *plainLimiter) Authorize(ctx context.Context, req license.Request) (license.Grant, error) {
	for {
		grant, err := l.attempt(ctx, req)
		if !errors.Is(err, errSessionExists) && !pg.IsUnique(err, "license_slots_session") {
			return grant, err
		}
	}
}

var errSessionExists = errors.New("the session came up meanwhile")

func (l *plainLimiter) attempt(ctx context.Context, req license.Request) (license.Grant, error) {
	if err := ctx.Err(); err != nil {
		return license.Grant{}, err
	}
	var row struct {
		license.Usage
		ID    *uuid.UUID `db:"id"`
		State *string    `db:"state"`
	}
	err := l.db.Get(&row, `SELECT o.in_use, o.max_slots, s.id, s.state FROM license_org o
		LEFT JOIN license_slots s ON s.organization_id = o.organization_id AND s.session_id = $2 WHERE o.organization_id = $1`, req.OrgID, req.SessionID)
	switch {
	case err != nil:
		return license.Grant{}, err
	case row.ID != nil && *row.State == "released":
		return license.Grant{}, fault.New(fault.Conflict, "That session is over.")
	case row.ID != nil:
		return license.Grant{Allowed: true, Current: row.Current, Limit: row.Limit, SlotID: *row.ID}, nil
	case row.Current >= *row.Limit:
		return license.Grant{Current: row.Current, Limit: row.Limit}, nil
	}
	grant := license.Grant{Allowed: true, Limit: row.Limit, SlotID: uuid.New()}
	err = l.tx(ctx, func(tx *sqlx.Tx) error {
		text := `SELECT in_use FROM license_org WHERE organization_id = $1 FOR UPDATE`
		if l.defect == unlocked {
			text = `SELECT count(*) FROM license_slots WHERE organization_id = $1 AND released_at IS NULL`
		}
		if err := tx.Get(&grant.Current, text, req.OrgID); err != nil {
			return err
		}
		if grant.Allowed = grant.Current < *grant.Limit; !grant.Allowed {
			var meanwhile bool
			err := tx.Get(&meanwhile, `SELECT EXISTS (SELECT FROM license_slots WHERE organization_id = $1 AND session_id = $2)`, req.OrgID, req.SessionID)
			if err == nil && meanwhile {
				err = errSessionExists
			}
			return err
		}
		grant.Current++
		if l.defect == staleCount {
			grant.Current = row.Current + 1
		}
		if _, err := tx.Exec(`UPDATE license_org SET in_use = in_use + 1 WHERE organization_id = $1`, req.OrgID); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, reserved_at, lease_until)
			VALUES ($1, $2, $3, $4, $5, $6, 'reserved', now(), now() + interval '2 minutes')`,
			grant.SlotID, req.OrgID, req.SessionID, req.ProfileID, req.MachineID, req.BootID)
		return err
	})
	if l.defect == leakedSlot && ctx.Err() != nil {
		return license.Grant{}, ctx.Err()
	}
	return grant, err
}

// End implements limiter.
func (l *plainLimiter) End(ctx context.Context, report license.EndReport) (session license.Session, err error) {
	if err := ctx.Err(); err != nil {
		return session, err
	}
	var row struct {
		ID      uuid.UUID          `db:"id"`
		State   string             `db:"state"`
		Machine *string            `db:"machine_id"`
		Reason  *license.EndReason `db:"end_reason"`
	}
	err = l.tx(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.Exec(`SELECT FROM license_org WHERE organization_id = $1 FOR UPDATE`, report.OrgID); err != nil {
			return err
		}
		err := tx.Get(&row, `SELECT id, state, machine_id, end_reason FROM license_slots WHERE organization_id = $1 AND session_id = $2`, report.OrgID, report.SessionID)
		if errors.Is(err, sql.ErrNoRows) {
			row.Machine, row.Reason = nil, &report.EndReason
			_, err := tx.Exec(`INSERT INTO license_slots (id, organization_id, session_id, state, reserved_at, lease_until, released_at, release_reason, ended_at, end_status, end_reason)
				VALUES ($1, $2, $3, 'released', now(), now(), now(), 'ended', now(), 'exited', $4)`, uuid.New(), report.OrgID, report.SessionID, report.EndReason)
			return err
		}
		if err != nil || row.State == "released" && l.defect != doubleEnd {
			return err
		}
		if row.Reason == nil {
			row.Reason = &report.EndReason
		}
		_, err = tx.Exec(`UPDATE license_slots SET state = 'released', released_at = now(), release_reason = 'ended', ended_at = now(), end_status = 'exited', end_reason = $2
			WHERE id = $1`, row.ID, row.Reason)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE license_org SET in_use = GREATEST(in_use - 1, 0) WHERE organization_id = $1`, report.OrgID)
		return err
	})
	session = license.Session{SessionID: report.SessionID, EndReason: row.Reason}
	if row.Machine != nil {
		session.SlotID = &row.ID
	}
	return session, err
}

// maxHistories is the number of histories that may be needed to see a defect. A defect
// that depends on timing is not visible in every history.
const maxHistories = 5

func TestLinearizability_DetectsBrokenLimiters(t *testing.T) {
	for name, test := range map[string]struct {
		defect defect
		want   porcupine.CheckResult
	}{
		"no defect":                                     {noDefect, porcupine.Ok},
		"counts and then inserts":                       {unlocked, porcupine.Illegal},
		"answers before it commits":                     {earlyAnswer, porcupine.Illegal},
		"counts an end twice":                           {doubleEnd, porcupine.Illegal},
		"keeps the slots of cancelled callers":          {leakedSlot, porcupine.Illegal},
		"answers with an outdated number of held slots": {staleCount, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			var verdict porcupine.CheckResult
			for range maxHistories {
				h := newHistoryRecorder(t, 16, 2, func(db *sqlx.DB) limiter { return &plainLimiter{db: db, defect: test.defect} })
				h.leaving = 15
				var story string
				verdict, story = h.recorded(300, 100, time.Minute)
				t.Log(story)
				if verdict != porcupine.Ok || test.want == porcupine.Ok {
					break
				}
			}
			if verdict != test.want {
				t.Errorf("judged %s, want %s", verdict, test.want)
			}
		})
	}
}
