// Package activity stores the session history: which sessions ran, where and for how
// long, as reported by the workers. It is kept after profiles are deleted, and is
// independent of the license accounting.
package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/shared/clock"
)

// Session is one run of a browser.
type Session struct {
	ID             uuid.UUID     `db:"id"`
	ProfileID      uuid.UUID     `db:"profile_id"`
	ProfileName    string        `db:"profile_name"` // at the start
	MachineID      string        `db:"machine_id"`
	KeyID          *uuid.UUID    `db:"key_id"` // with which the worker reported the start; nil if unknown
	LaunchID       uuid.UUID     `db:"launch_id"`
	BrowserVersion int32         `db:"browser_version"` // major
	Status         string        `db:"status"`          // running, exited or killed (specification 3.1)
	EndReason      *string       `db:"end_reason"`
	StartedAt      time.Time     `db:"started_at"`
	EndedAt        *time.Time    `db:"ended_at"`
	Recording      *Recording    `db:"recording"` // nil if it is not recorded
	Name           *string       `db:"name"`      // nil if it has none
	Metadata       Metadata      `db:"metadata"`
	Duration       time.Duration `db:"-"` // so far, for a running session

	Connections   *int64 `db:"connections"` // nil until it is reported, like the next three
	BytesSent     *int64 `db:"bytes_sent"`
	BytesReceived *int64 `db:"bytes_received"`
	Denied        *int64 `db:"denied"`
}

// Feed stores the sessions of all organizations.
type Feed struct {
	DB    *sqlx.DB
	Clock clock.Clock
}

// Start is a session that runs. Without a LaunchID it is a known session that was
// restored: only its existing row is set to running.
type Start struct {
	SessionID      uuid.UUID
	OrganizationID uuid.UUID
	ProfileID      uuid.UUID
	ProfileName    string
	MachineID      string
	KeyID          uuid.UUID // of the organization; zero if unknown
	LaunchID       uuid.UUID
	BrowserVersion int32 // major
	StartedAt      time.Time
	Recording      *Recording
	Labels         *Labels // nil if they are not known: those of an existing row stay
}

// Labels are what users call a session.
type Labels struct {
	Name     string // empty for none
	Metadata Metadata
}

// End is a session that ended.
type End struct {
	SessionID      uuid.UUID
	OrganizationID uuid.UUID
	Status         string // exited or killed
	EndReason      string
	EndedAt        time.Time
}

// Started writes the rows of running sessions within tx. An existing row keeps its
// start values, gets the labels, and is set to running.
func (f *Feed) Started(ctx context.Context, tx *sqlx.Tx, starts []Start) error {
	var labelled, unlabelled, back []Start
	for _, s := range starts {
		switch {
		case s.LaunchID == uuid.Nil:
			back = append(back, s)
		case s.Labels == nil:
			unlabelled = append(unlabelled, s)
		default:
			labelled = append(labelled, s)
		}
	}
	if err := insert(ctx, tx, labelled, true); err != nil {
		return err
	}
	if err := insert(ctx, tx, unlabelled, false); err != nil {
		return err
	}
	return markRunning(ctx, tx, back)
}

// insert inserts rows. If relabel is set, existing rows get the labels.
func insert(ctx context.Context, tx *sqlx.Tx, starts []Start, relabel bool) error {
	if len(starts) == 0 {
		return nil
	}
	n := len(starts)
	ids, organizations, profiles, launches := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
	keys := make([]uuid.NullUUID, n)
	names, machines, versions, times := make([]string, n), make([]string, n), make([]int32, n), make([]time.Time, n)
	recordings, sessionNames, metadata := make([]*Recording, n), make([]string, n), make([]Metadata, n)
	for i, s := range starts {
		ids[i], organizations[i], profiles[i], launches[i] = s.SessionID, s.OrganizationID, s.ProfileID, s.LaunchID
		keys[i] = uuid.NullUUID{UUID: s.KeyID, Valid: s.KeyID != uuid.Nil}
		names[i], machines[i], versions[i], times[i] = s.ProfileName, s.MachineID, s.BrowserVersion, s.StartedAt
		recordings[i] = s.Recording
		if s.Labels != nil {
			sessionNames[i], metadata[i] = s.Labels.Name, s.Labels.Metadata
		}
	}
	_, err := tx.ExecContext(ctx, `
		INSERT INTO activity_sessions AS a (id, organization_id, profile_id, profile_name, machine_id, launch_id,
			browser_version, status, started_at, key_id, recording, name, metadata)
		SELECT DISTINCT ON (organization_id, id) id, organization_id, profile_id, profile_name, machine_id, launch_id, version, 'running', at,
			key_id, recording, NULLIF(name, ''), metadata
		FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::uuid[], $7::integer[], $8::timestamptz[], $9::uuid[],
			$10::jsonb[], $11::text[], $12::jsonb[])
			AS u (id, organization_id, profile_id, profile_name, machine_id, launch_id, version, at, key_id, recording, name, metadata)
		ORDER BY organization_id, id
		ON CONFLICT (organization_id, id) DO UPDATE
		SET status = 'running', end_reason = NULL, ended_at = NULL,
			name = CASE WHEN $13 THEN excluded.name ELSE a.name END, metadata = CASE WHEN $13 THEN excluded.metadata ELSE a.metadata END
		WHERE a.status <> 'running' OR $13 AND (a.name, a.metadata) IS DISTINCT FROM (excluded.name, excluded.metadata)`,
		pq.Array(ids), pq.Array(organizations), pq.Array(profiles), pq.Array(names), pq.Array(machines),
		pq.Array(launches), pq.Array(versions), pq.Array(times), pq.Array(keys), pq.Array(recordings),
		pq.Array(sessionNames), pq.Array(metadata), relabel)
	if err != nil {
		return fmt.Errorf("insert sessions: %w", err)
	}
	return nil
}

func markRunning(ctx context.Context, tx *sqlx.Tx, starts []Start) error {
	if len(starts) == 0 {
		return nil
	}
	ids, organizations := make([]uuid.UUID, len(starts)), make([]uuid.UUID, len(starts))
	for i, s := range starts {
		ids[i], organizations[i] = s.SessionID, s.OrganizationID
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE activity_sessions a SET status = 'running', end_reason = NULL, ended_at = NULL
		FROM unnest($1::uuid[], $2::uuid[]) AS u (id, organization_id)
		WHERE a.id = u.id AND a.organization_id = u.organization_id AND a.status <> 'running'`,
		pq.Array(ids), pq.Array(organizations))
	if err != nil {
		return fmt.Errorf("set sessions to running: %w", err)
	}
	return nil
}

// Ended writes the end of sessions within tx. A failed launch has no row and leaves
// none. The last report wins: a session that was released without a report may still
// be reported with its actual end.
func (f *Feed) Ended(ctx context.Context, tx *sqlx.Tx, ends []End) error {
	n := len(ends)
	ids, organizations := make([]uuid.UUID, n), make([]uuid.UUID, n)
	statuses, reasons, times := make([]string, n), make([]string, n), make([]time.Time, n)
	for i, e := range ends {
		ids[i], organizations[i] = e.SessionID, e.OrganizationID
		statuses[i], reasons[i], times[i] = e.Status, e.EndReason, e.EndedAt
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE activity_sessions a
		SET status = u.status, end_reason = NULLIF(u.reason, ''), ended_at = GREATEST(u.at, a.started_at)
		FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[])
			AS u (id, organization_id, status, reason, at)
		WHERE a.id = u.id AND a.organization_id = u.organization_id`,
		pq.Array(ids), pq.Array(organizations), pq.Array(statuses), pq.Array(reasons), pq.Array(times))
	if err != nil {
		return fmt.Errorf("write session ends: %w", err)
	}
	return nil
}
