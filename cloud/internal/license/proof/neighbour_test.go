package proof_test

import "github.com/google/uuid"

// newNeighbour founds another organization with a copy of all that this one has:
// session, machine and boot ids are each organization's own. Time does not pass
// there, and whatever happens here leaves it as it is. The leases of a stale one
// are over, which is nobody's business but the reaper's.
func (s *stage) newNeighbour(stale bool) {
	s.t.Helper()
	s.dropNeighbour()
	s.neighbour = uuid.New()
	lease := "1 day"
	if stale {
		lease = "-1 hour"
	}
	s.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Neighbour', $2, now())`, s.neighbour, s.neighbour.String())
	s.exec(`INSERT INTO license_org (org_id, max_slots, in_use) SELECT $2, max_slots, in_use FROM license_org WHERE org_id = $1`, s.org, s.neighbour)
	s.exec(`INSERT INTO license_machines SELECT (jsonb_populate_record(m, jsonb_build_object('org_id', $2::uuid))).*
		FROM license_machines m WHERE org_id = $1`, s.org, s.neighbour)
	s.exec(`INSERT INTO license_late_boots SELECT (jsonb_populate_record(l, jsonb_build_object('org_id', $2::uuid))).*
		FROM license_late_boots l WHERE org_id = $1`, s.org, s.neighbour)
	s.exec(`INSERT INTO license_slots SELECT (jsonb_populate_record(s, jsonb_build_object(
			'org_id', $2::uuid, 'id', gen_random_uuid(), 'lease_until', now() + $3::interval))).*
		FROM license_slots s WHERE org_id = $1`, s.org, s.neighbour, lease)
	s.untouched = s.look().Neighbour
}

// dropNeighbour removes the neighbour.
func (s *stage) dropNeighbour() {
	s.t.Helper()
	if s.neighbour != uuid.Nil {
		s.exec(`DELETE FROM organizations WHERE id = $1`, s.neighbour)
	}
	s.neighbour, s.untouched = uuid.Nil, ""
}
