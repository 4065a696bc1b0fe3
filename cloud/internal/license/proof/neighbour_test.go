package proof_test

import "github.com/google/uuid"

// newOtherOrg founds another organization with a copy of all that this one has:
// session, machine and boot ids are each organization's own. Time does not pass
// there, and whatever happens here leaves it as it is. The leases of a stale one
// are over, which is nobody's business but the reaper's.
func (s *testEnv) newOtherOrg(stale bool) {
	s.t.Helper()
	s.dropOtherOrg()
	s.otherOrg = uuid.New()
	lease := "1 day"
	if stale {
		lease = "-1 hour"
	}
	s.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Neighbour', $2, now())`, s.otherOrg, s.otherOrg.String())
	s.exec(`INSERT INTO license_org (org_id, max_slots, in_use) SELECT $2, max_slots, in_use FROM license_org WHERE org_id = $1`, s.org, s.otherOrg)
	s.exec(`INSERT INTO license_machines SELECT (jsonb_populate_record(m, jsonb_build_object('org_id', $2::uuid))).*
		FROM license_machines m WHERE org_id = $1`, s.org, s.otherOrg)
	s.exec(`INSERT INTO license_late_boots SELECT (jsonb_populate_record(l, jsonb_build_object('org_id', $2::uuid))).*
		FROM license_late_boots l WHERE org_id = $1`, s.org, s.otherOrg)
	s.exec(`INSERT INTO license_slots SELECT (jsonb_populate_record(s, jsonb_build_object(
			'org_id', $2::uuid, 'id', gen_random_uuid(), 'lease_until', now() + $3::interval))).*
		FROM license_slots s WHERE org_id = $1`, s.org, s.otherOrg, lease)
	s.otherOrgRows = s.readTables().OtherOrg
}

// dropOtherOrg removes the neighbour.
func (s *testEnv) dropOtherOrg() {
	s.t.Helper()
	if s.otherOrg != uuid.Nil {
		s.exec(`DELETE FROM organizations WHERE id = $1`, s.otherOrg)
	}
	s.otherOrg, s.otherOrgRows = uuid.Nil, ""
}
