package license

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/combine"
)

// maxTombstones bounds the tombstones of an organization. More exist only if a client
// invents sessions: an end rarely arrives before its start, and then by seconds.
const maxTombstones = 1000

// tombstoneSQL inserts tombstones: ends of sessions that have no slot, so that a start
// report can't come after them. A tombstone has no machine. Like all slots it requires
// the counter row; the lock does not block transactions that change the counter.
const tombstoneSQL = `
INSERT INTO license_slots AS s (id, organization_id, session_id, profile_id, state, reserved_at, lease_until,
	released_at, release_reason, ended_at, end_status, end_reason)
SELECT t.id, o.organization_id, t.session_id, t.profile_id, 'released', now, now, now, 'ended', LEAST(t.ended_at, now), t.status::license_end_status, t.reason
FROM (SELECT organization_id FROM license_org WHERE organization_id = $1 FOR KEY SHARE) o, clock_timestamp() AS now,
	unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::timestamptz[], $6::text[], $7::text[])
	AS t (id, session_id, profile_id, ended_at, status, reason)
ORDER BY t.session_id
ON CONFLICT (organization_id, session_id) DO NOTHING
RETURNING ` + slotColumns

// deleteTombstonesSQL deletes the oldest tombstones beyond the latest $2. It skips
// locked rows.
const deleteTombstonesSQL = `
DELETE FROM license_slots WHERE ctid = ANY (ARRAY(
	SELECT s.ctid FROM license_slots s WHERE s.id = ANY (ARRAY(
		SELECT t.id FROM license_slots t WHERE t.organization_id = $1 AND t.machine_id IS NULL ORDER BY t.id DESC OFFSET $2 LIMIT 1000))
	FOR UPDATE SKIP LOCKED))`

// KnownProfiles returns which profiles exist.
type KnownProfiles interface {
	// Known returns those of the ids that are profiles of the organization.
	Known(ctx context.Context, orgID uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
}

// withoutRow returns the ends of a batch whose sessions have no row.
func withoutRow(batch []release, now slotsBySession) []release {
	var ends []release
	for _, r := range batch {
		if !r.isUndo && now[r.report.SessionID] == nil {
			ends = append(ends, r)
		}
	}
	return ends
}

// unknownProfiles returns the profiles of the ends that the organization does not
// have. Such an end needs no tombstone: there can be no start after it.
func (s *Service) unknownProfiles(ctx context.Context, orgID uuid.UUID, ends []release) (map[uuid.UUID]bool, error) {
	if len(ends) == 0 || s.opts.KnownProfiles == nil {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(ends))
	for i, r := range ends {
		ids[i] = r.report.ProfileID
	}
	ids = combine.Distinct(ids)
	found, err := s.opts.KnownProfiles.Known(ctx, orgID, ids)
	if err != nil {
		return nil, fmt.Errorf("look up the profiles of ends: %w", err)
	}
	unknown := map[uuid.UUID]bool{}
	for _, id := range difference(ids, found) {
		unknown[id] = true
	}
	return unknown, nil
}

// insertTombstones inserts tombstones for unknown sessions, except those of unknown
// profiles, and adds them to now. It reports whether a row is still missing, because
// another transaction inserted it after the lookup. It neither changes the counter nor
// holds a transaction that waits for it, because an authorize that holds the counter
// may wait for these rows.
func (s *Service) insertTombstones(ctx context.Context, orgID uuid.UUID, ends []release, unknown map[uuid.UUID]bool, now slotsBySession) (missing bool, err error) {
	chosen := map[uuid.UUID]bool{}
	ends = slices.DeleteFunc(ends, func(r release) bool {
		session := r.report.SessionID
		again := chosen[session] || unknown[r.report.ProfileID]
		chosen[session] = chosen[session] || !again
		return again
	})
	if len(ends) == 0 {
		return false, nil
	}
	ids := make([]uuid.UUID, len(ends))
	for i := range ids {
		if ids[i], err = uuid.NewV7(); err != nil {
			return false, fmt.Errorf("generate a slot id: %w", err)
		}
	}
	l := newReleaseArrays(ends)
	var buried []slot
	err = s.batch.tombstone.SelectContext(ctx, &buried, orgID, uuidArray(ids), l.sessions, l.profiles, l.times, l.statuses, l.reasons)
	if err != nil {
		return false, fmt.Errorf("insert tombstones: %w", err)
	}
	for i := range buried {
		now[buried[i].SessionID] = &buried[i]
	}
	if _, err := s.batch.deleteTombstones.ExecContext(ctx, orgID, maxTombstones); err != nil {
		return false, fmt.Errorf("delete old tombstones: %w", err)
	}
	if len(buried) == 0 { // the organization may have been removed
		snap, err := s.lookupBatch(ctx, orgID, nil, nil)
		if err == nil {
			err = snap.missing()
		}
		if err != nil {
			return false, err
		}
	}
	return len(buried) < len(ends), nil
}
