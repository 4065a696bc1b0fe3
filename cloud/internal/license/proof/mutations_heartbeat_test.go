package proof_test

func heartbeatMutations() []*mutation {
	return []*mutation{
		{name: "older heartbeats are accepted", rule: "older heartbeats are ignored (DESIGN 6)", plan: machines, changes: []change{
			{refresh, "m.seq <= excluded.seq", "true"}}},
		{name: "no check for later heartbeats before reconcile", rule: "a later heartbeat reconciles instead (DESIGN 6)", late: lockMachine, plan: takenOver, changes: []change{
			{lockMachine, "AND boot_id = $3 AND seq = $4", "AND $3::uuid IS NOT NULL AND $4::bigint IS NOT NULL"}}},
		{name: "omission of sessions that started later", rule: "released only where seq <= heartbeat.seq (DESIGN 6)", plan: machines, changes: []change{
			{releaseOmitted, omitted, "s.state = 'running'"}, {hasOmitted, omitted, "s.state = 'running'"}}},
		{name: "omission of a launch in progress", rule: "a reservation is consumed or expires (spec 3.2)", plan: machines, changes: []change{
			{releaseOmitted, omitted, "s.seq <= m.seq"}, {hasOmitted, omitted, "s.seq <= m.seq"}}},
		{name: "omission of a new boot's launch", rule: "an unknown boot keeps its reservations", plan: machines, changes: []change{
			{releaseOmitted, "(s.state = 'running' OR s.boot_id = ANY (m.past_boots))", "true"},
			{hasOmitted, "(s.state = 'running' OR s.boot_id = ANY (m.past_boots))", "true"}}},
		{name: "omitted sessions are not released", rule: "omitted sessions are released (spec 3.2)", plan: machines, changes: []change{
			{hasOmitted, "m.seq = $6", "m.seq <> $6"}}},
		{name: "omissions that are neither reported nor counted", rule: "in_use is the live rows (DESIGN 6)", plan: machines, changes: []change{
			{releaseOmitted, "FROM changed s", "FROM changed s WHERE false"}}},
		{name: "omission on every machine", rule: "the authority on its own machine (spec 3.2)", plan: machines, changes: []change{
			{releaseOmitted, "AND s.machine_id = $2 AND s.released_at IS NULL", "AND $2::text <> '' AND s.released_at IS NULL"},
			{hasOmitted, "AND s.machine_id = $2 AND s.released_at IS NULL", "AND s.released_at IS NULL"}}},
		{name: "another machine's sessions are held", rule: "the authority on its own machine (spec 3.2)", plan: machines, changes: []change{
			{refresh, "s.machine_id = $2 AND s.released_at IS NULL\n\t\tAND (s", "s.released_at IS NULL\n\t\tAND (s"}}},
		{name: "another machine's sessions are adopted", rule: "the authority on its own machine (spec 3.2)", plan: machines, changes: []change{
			{adopt, "AND s.machine_id = $2", "AND $2::text <> ''"}}},
		{name: "ended sessions are adopted", rule: "only an end report is final (DESIGN 6)", plan: machines, changes: []change{
			{adopt, "AND s.release_reason <> 'ended'", ""}}},
		{name: "expired sessions are not adopted", rule: "listed but reaped rows are adopted (DESIGN 6)", plan: machines, changes: []change{
			{adopt, "AND s.release_reason <> 'ended'", "AND s.release_reason NOT IN ('ended', 'lapsed')"}}},
		{name: "adopted but not counted", rule: "in_use is the live rows (DESIGN 6)", plan: machines, changes: []change{
			{counter, "in_use + $2", "in_use + LEAST($2::int, 0)"}}},
		{name: "adopting without checking the state", rule: "no heartbeat restores a slot without counting it (DESIGN 6)", plan: machines, changes: []change{
			{refresh, "boot_id = m.boot_id\n", `boot_id = m.boot_id, state = CASE WHEN s.started_at IS NULL THEN license_slot_state 'reserved' ELSE 'running' END,
				released_at = NULL, release_reason = NULL, ended_at = NULL, end_status = NULL, end_reason = NULL` + "\n"},
			{refresh, "AND s.released_at IS NULL\n\t\tAND (s", "AND (s"}}},
	}
}

func bootMutations() []*mutation {
	return []*mutation{
		{name: "every boot is accepted", rule: "superseded boots are ignored (DESIGN 6)", plan: machines, changes: []change{
			{refresh, "ELSE NOT (m.heartbeat_at", "ELSE true OR NOT (m.heartbeat_at"}}},
		{name: "superseded boots are forgotten", rule: "superseded boots are ignored (DESIGN 6)", plan: machines, changes: []change{
			{refresh, "excluded.boot_id = ANY (m.past_boots)", "false"}, {register, "excluded.boot_id = ANY (m.past_boots)", "false"}}},
		{name: "an older boot replaces the newer", rule: "superseded boots are ignored (DESIGN 6)", plan: machines, changes: []change{
			{refresh, "AND excluded.boot_id < m.boot_id", "AND false"}, {register, "AND excluded.boot_id < m.boot_id", "AND false"}}},
		{name: "a silent boot is never replaced by an older one", rule: "a wrong decision corrects itself", plan: machines, changes: []change{
			{refresh, "m.heartbeat_at > clock_timestamp() - make_interval(secs => $5)", "true"}}},
		{name: "a superseded boot is alive at once", rule: "a restart is no duplicate machine (DESIGN 6)", plan: duplicateWorkers, changes: []change{
			{recordSuperseded, "l.since <= clock_timestamp() - make_interval(secs => $7)", "$7::float8 > 0"}}},
		{name: "a copy of a heartbeat proves a superseded boot", rule: "a restart is no duplicate machine (DESIGN 6)", plan: duplicateWorkers, changes: []change{
			{recordSuperseded, "WHEN l.seq < excluded.seq AND", "WHEN"}}},
		{name: "two workers of one machine release each other's", rule: "duplicate machines do not flap (DESIGN 6)", plan: duplicateWorkers, changes: []change{
			{releaseOmitted, alive, "AND false AND"}, {hasOmitted, alive, "AND false AND"}}},
		{name: "older heartbeats of a superseded boot are accepted", rule: "older heartbeats are ignored (DESIGN 6)", plan: duplicateWorkers, changes: []change{
			{recordSuperseded, "WHERE l.seq <= excluded.seq", "WHERE true"}}},
		{name: "no check for later heartbeats of a superseded boot before reconcile", rule: "a later heartbeat reconciles instead (DESIGN 6)", late: lockSupersededBoot, plan: duplicateRaces, changes: []change{
			{lockSupersededBoot, "AND seq = $4", "AND $4::bigint IS NOT NULL"}}},
	}
}

func leaseMutations() []*mutation {
	return []*mutation{
		{name: "reservations of 1 minute", rule: "2 minutes (DESIGN 6)", plan: sessions, changes: []change{
			{takeOne, "make_interval(secs => $8)", "make_interval(secs => $8 / 2)"}}},
		{name: "6 hours from the report, not from the start", rule: "six hours since startedAt (spec 3.2)", plan: sessions, changes: []change{
			{startSlot, "GREATEST($7::timestamptz, COALESCE($9::timestamptz, s.reserved_at)) + make", "clock_timestamp() + make"}}},
		{name: "a start before its reservation", rule: "the worker's clock can't extend the lease", plan: sessions, changes: []change{
			{startSlot, "GREATEST($7::timestamptz, COALESCE($9::timestamptz, s.reserved_at)) + make", "$7::timestamptz + make"}}},
		{name: "3 hours until the first heartbeat", rule: "six hours since startedAt (spec 3.2)", plan: sessions, changes: []change{
			{startSlot, "make_interval(secs => $8)", "make_interval(secs => $8 / 2)"}}},
		{name: "10 minutes from a heartbeat", rule: "five minutes since heartbeatAt (spec 3.2)", plan: sessions, changes: []change{
			{refresh, "make_interval(secs => $5) AS lease_until", "make_interval(secs => $5 * 2) AS lease_until"}}},
		{name: "reclaim closes more than is flagged", rule: "one stale predicate (spec 3.2; DESIGN 6)", plan: leaseEnds, changes: []change{
			{expire, "license_stale(lease_until)", "(lease_until <= now() + interval '1 minute')"}}},
		{name: "reclaim closes less than is flagged", rule: "one stale predicate (spec 3.2; DESIGN 6)", plan: leaseEnds, changes: []change{
			{expire, "license_stale(lease_until)", "(lease_until <= now() - interval '1 minute')"}}},
		{name: "a delayed stale flag", rule: "one stale predicate (spec 3.2; DESIGN 6)", plan: leaseEnds, changes: []change{
			{listed, "license_stale(lease_until)", "(lease_until <= now() - interval '1 minute')"}}},
	}
}

func tenantMutations() []*mutation {
	const rule = "tenants never see each other (DESIGN 5)"
	machine, anyMachine := "s.organization_id = $1 AND s.machine_id = $2 AND s.released_at IS NULL", "$1::uuid IS NOT NULL AND s.machine_id = $2 AND s.released_at IS NULL"
	condition, ofAny := "s.organization_id = $1 AND s.session_id", "$1::uuid IS NOT NULL AND s.session_id"
	return []*mutation{
		{name: "another organization's sessions are held", rule: rule, plan: tenants, changes: []change{
			{refresh, machine + "\n\t\tAND (s", anyMachine + "\n\t\tAND (s"}}},
		{name: "another organization's sessions are omitted", rule: rule, plan: tenants, changes: []change{
			{releaseOmitted, machine, anyMachine}, {hasOmitted, machine, anyMachine}}},
		{name: "another organization's sessions are adopted", rule: rule, plan: tenants, changes: []change{{adopt, condition, ofAny}}},
		{name: "another organization's sessions are ended", rule: rule, plan: tenants, changes: []change{{endOne, condition, ofAny}}},
		{name: "another organization's sessions are reclaimed", rule: rule, plan: tenants, changes: []change{
			{expire, "organization_id = $1 AND (state", "$1::uuid IS NOT NULL AND (state"}}},
	}
}
