package proof_test

// Texts that identify the statements.
const (
	takeOne            = "SELECT in_use, max_slots FROM counted"
	takeMany           = "w.place <= capacity.free"
	lookup             = "SELECT k.keys, o.in_use, o.max_slots, o.queued, s.id"
	takeTurns          = "WITH turn AS ("
	join               = "), joined AS ("
	leave              = "AND q.call_id = c.call_id"
	findTurns          = "SELECT call_id FROM ("
	acquire            = "in_use < max_slots)\nRETURNING in_use"
	lock               = "s.session_id = $2 FOR UPDATE"
	startSlot          = "SET state = 'running'"
	register           = "WITH registered AS"
	renew              = "SET lease_until = CASE state"
	endOne             = "AND s.state <> 'released'\n"
	cancel             = "AND s.state = 'reserved' AND s.id = $7"
	release            = "SELECT DISTINCT ON (f.id)"
	undo               = "DELETE FROM license_slots s"
	carried            = "AS w (session_id, machine_id, n)"
	tombstone          = "(SELECT organization_id FROM license_org WHERE organization_id = $1 FOR KEY SHARE)"
	counter            = "SET in_use = in_use + $2"
	refresh            = "WITH machine AS ("
	hasOmitted         = "SELECT FROM license_slots s, license_machines m"
	releaseOmitted     = "release_reason = 'omitted'"
	adopt              = "SET state = CASE WHEN s.started_at IS NULL"
	recordSuperseded   = "WITH late AS ("
	lockMachine        = "SELECT past_boots FROM license_machines"
	lockSupersededBoot = "SELECT '{}'::uuid[] FROM license_superseded_boots"
	expire             = "WITH stale AS ("
	hasExpired         = "SELECT EXISTS (SELECT FROM license_slots WHERE organization_id = $1"
	listed             = "license_stale(lease_until) AS stale"
	setLimit           = "max_slots = excluded.max_slots"
)

const (
	hasFreeSlot = "(max_slots IS NULL OR in_use + queued < max_slots)"
	isNotFull   = "(max_slots IS NULL OR in_use < max_slots)"
	countsRows  = "(SELECT count(*) FROM license_slots l WHERE l.organization_id = $1 AND l.released_at IS NULL) < max_slots"
	omitted     = "s.state = 'running' AND s.seq <= m.seq"
	alive       = "AND l.alive_since IS NOT NULL AND"
)

// mutations disable the rules of DESIGN 6 and of specification 3.2, one by one.
//
// Rules that are implemented in Go are disabled by changing what SQL returns (a start of
// a running session), or by the driver (answers before the commit). Rules without an
// effect on the accounting are not included: SKIP LOCKED affects only the reaper's speed;
// the order of arrival is tested with the combiner; and the rows that the removal of an
// organization deletes first would be deleted by the cascade anyway.
func mutations() []*mutation {
	var all []*mutation
	for _, list := range [][]*mutation{grantMutations(), queueMutations(), startMutations(), endMutations(), heartbeatMutations(), bootMutations(), leaseMutations(), tenantMutations()} {
		all = append(all, list...)
	}
	return all
}

func grantMutations() []*mutation {
	return []*mutation{
		{name: "no limit", rule: "no grant at the limit (spec 8.2)", plan: models, changes: []change{
			{"", hasFreeSlot, "true"}, {takeMany, "capacity.free IS NULL OR w.place <= capacity.free", "true"}}},
		{name: "counting without a lock", rule: "a guarded increment (DESIGN 6)", plan: lastSlot, changes: []change{
			{takeOne, hasFreeSlot, "(max_slots IS NULL OR " + countsRows + ")"}}},
		{name: "advisory lock in the statement that counts", rule: "a guarded increment (DESIGN 6)", plan: lastSlot, changes: []change{
			{takeOne, "WITH counted AS (", "WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext($1::uuid::text))), counted AS ("},
			{takeOne, hasFreeSlot, "(EXISTS (SELECT FROM locked) AND (max_slots IS NULL OR " + countsRows + "))"}}},
		{name: "a batch beyond the limit", rule: "grants by arrival, up to the limit (DESIGN 6)", plan: inBatches, changes: []change{
			{takeMany, "capacity.free IS NULL OR w.place <= capacity.free", "true"}}},
		{name: "a batch that counts refused requests", rule: "in_use is the live rows (DESIGN 6)", plan: inBatches, changes: []change{
			{takeMany, "in_use + (SELECT count(*) FROM taken)", "in_use + cardinality($2::uuid[])"}}},
		{name: "a grant before its commit", rule: "answers after commit (DESIGN 6)", plan: grants, void: takeOne},
		{name: "answers before the commit", rule: "answers after commit (DESIGN 6)", plan: grants, commits: true},
		{name: "a limit change is ignored", rule: "the ceiling is the plan's (spec 8.2)", plan: grants, changes: []change{
			{setLimit, "DO UPDATE SET max_slots = excluded.max_slots", "DO UPDATE SET max_slots = license_org.max_slots"}}},
		{name: "unlimited means none", rule: "null is no ceiling, never zero (spec 8.1)", plan: grants, changes: []change{
			{"", hasFreeSlot, "in_use < COALESCE(max_slots, 0)"}, {"", isNotFull, "in_use < COALESCE(max_slots, 0)"}, {lookup, "o.max_slots,", "COALESCE(o.max_slots, 0) AS max_slots,"}}},
		{name: "no search for expired slots", rule: "expired slots are reclaimed before a refusal (DESIGN 6)", plan: grants, changes: []change{
			{hasExpired, "SELECT EXISTS", "SELECT false AND EXISTS"}}},
		{name: "no grace period for sessions", rule: "workers that could not report can do so first", plan: restarts, changes: []change{
			{hasExpired, "OR $2)", "OR true OR $2)"}, {expire, "OR $3)", "OR true OR $3)"}}},
		{name: "a grace period for reservations too", rule: "expired slots are reclaimed before a refusal (DESIGN 6)", plan: restarts, changes: []change{
			{hasExpired, "state = 'reserved' OR $2", "$2"}}},
		{name: "cancelled callers keep their slot", rule: "cancelled callers leak no slot (DESIGN 6)", plan: cancelled, changes: []change{
			{undo, "AND s.state = 'reserved'", "AND false"}}},
		{name: "a repeated reservation is undone", rule: "a repeated authorize is the same slot (DESIGN 6)",
			late: undo, plan: cancelledTwice, changes: []change{{undo, "AND s.lease_until = s.reserved_at + make_interval(secs => $3)", "AND $3::float8 > 0"}}},
		{name: "a repeated request does not renew", rule: "a repeated authorize renews the reservation", plan: grants, changes: []change{
			{renew, "THEN GREATEST(", "THEN LEAST("}}},
		{name: "a launch is decided before its carried ends", rule: "an acknowledged end is visible to the next launch", plan: relaunches, changes: []change{
			{carried, "AND s.released_at IS NULL LIMIT 1", "AND s.released_at IS NULL AND false LIMIT 1"}}},
		{name: "a launch ends another machine's sessions", rule: "a worker speaks for its own machine (spec 3.2)", plan: relaunches, changes: []change{
			{carried, "AND s.machine_id = w.machine_id", ""}}},
		{name: "a revoked key authorizes", rule: "revocation is effective on the next call (spec 5.3; DESIGN 5)", plan: grants, changes: []change{
			{"FROM api_keys", "api_key_valid(revoked_at,", "api_key_valid(NULL,"}}},
	}
}

// queueMutations disable rules that sequential calls show. TestQueueMutations_AreDetected
// disables those of calls in progress.
func queueMutations() []*mutation {
	return []*mutation{
		{name: "a newcomer overtakes the queue", rule: "a free slot belongs to the first in the queue (DESIGN 6)", plan: queues, changes: []change{
			{"", hasFreeSlot, isNotFull}, {lookup, "o.queued", "0 AS queued"}}},
		{name: "last come, first served", rule: "first come, first served (DESIGN 6)", plan: queues, changes: []change{
			{takeTurns, "ORDER BY q.place", "ORDER BY q.place DESC"}}},
		{name: "as many turns as slots", rule: "as many turns as free slots (DESIGN 6)", plan: queues, changes: []change{
			{takeTurns, "GREATEST(o.max_slots - o.in_use, 0)", "o.max_slots"}}},
		{name: "a repeated request goes to the end", rule: "a repeated request keeps its place (DESIGN 6)", plan: queues, changes: []change{
			{join, "CASE WHEN q.lease_until > clock_timestamp() THEN q.place ELSE excluded.place END", "excluded.place"}}},
		{name: "a repeated request does not extend its lease", rule: "a repeated request keeps its place (DESIGN 6)", plan: queues, changes: []change{
			{join, "lease_until = excluded.lease_until", "lease_until = q.lease_until"}}},
		{name: "a place lasts forever", rule: "a place ends with its lease (DESIGN 6)", plan: queues, changes: []change{
			{"", "q.lease_until > clock_timestamp()\n", "true\n"}, {join, "q.lease_until > clock_timestamp()", "true"}}},
		{name: "an ended session keeps its place", rule: "a place ends with its session (DESIGN 6)", plan: queues, changes: []change{
			{"", "AND NOT EXISTS (SELECT FROM license_slots s WHERE s.organization_id = q.organization_id AND s.session_id = q.session_id)", ""}}},
		{name: "joins are not counted", rule: "queued is the rows (DESIGN 6)", plan: queues, changes: []change{
			{join, "queued + (SELECT count(*) FROM joined WHERE inserted)", "queued"}}},
		{name: "served launches are counted on", rule: "queued is the rows (DESIGN 6)", plan: queues, changes: []change{
			{takeTurns, "queued - (SELECT count(*) FROM served)", "queued"}}},
		{name: "turns are not counted", rule: "in_use is the live rows (DESIGN 6)", plan: queues, changes: []change{
			{takeTurns, "in_use + (SELECT count(*) FROM taken)", "in_use"}}},
	}
}

func startMutations() []*mutation {
	state := "s.boot_id, s.state,"
	return []*mutation{
		{name: "a repeated start counts again", rule: "start is idempotent by session (DESIGN 6)", plan: sessions, changes: []change{
			{lock, state, "s.boot_id, CASE s.state WHEN 'running' THEN 'released' ELSE s.state END AS state,"}}},
		{name: "a start takes a slot beside its reservation", rule: "the reservation is consumed (spec 3.2)", plan: sessions, changes: []change{
			{lock, state, "s.boot_id, CASE s.state WHEN 'reserved' THEN 'released' ELSE s.state END AS state,"}}},
		{name: "a start resurrects what ended", rule: "never resurrects an ended session (DESIGN 6)", plan: sessions, changes: []change{
			{lock, "s.release_reason", "NULLIF(s.release_reason, 'ended') AS release_reason"}}},
		{name: "a start resurrects what was omitted", rule: "the heartbeat is the authority (spec 3.2)", plan: sessions, changes: []change{
			{lock, "s.release_reason", "NULLIF(s.release_reason, 'omitted') AS release_reason"}}},
		{name: "an expired reservation is not consumable", rule: "still counts and is still consumable (DESIGN 6)", plan: sessions, changes: []change{
			{lock, "FOR UPDATE", "AND NOT (s.state = 'reserved' AND license_stale(s.lease_until)) FOR UPDATE"}}},
		{name: "a start of another profile's session", rule: "a slot belongs to its profile", plan: sessions, changes: []change{
			{lock, "s.profile_id", "NULL::uuid AS profile_id"}}},
		{name: "an expired session starts uncounted", rule: "no reservation left: the guarded increment again (DESIGN 6)", plan: expiredStarts, changes: []change{
			{acquire, "in_use = in_use + 1", "in_use = in_use"}}},
		{name: "an expired session starts above the limit", rule: "no reservation left: the guarded increment again (DESIGN 6)", plan: expiredStarts, changes: []change{
			{acquire, isNotFull, "true"}}},
		{name: "a start does not register its boot", rule: "superseded boots are ignored (DESIGN 6)", plan: sessions, changes: []change{
			{register, "WHERE NOT EXISTS (", "WHERE false AND NOT EXISTS ("}}},
	}
}

func endMutations() []*mutation {
	return []*mutation{
		{name: "ending what is not live", rule: "end is idempotent (DESIGN 6)", plan: sessions, changes: []change{
			{endOne, "AND s.state <> 'released'", ""}}},
		{name: "ending a released session counts twice", rule: "in_use is the live rows (DESIGN 6)", plan: sessions, changes: []change{
			{release, "c.state <> 'released' AS freed", "true AS freed"}}},
		{name: "the last report of an end stands", rule: "end is idempotent (DESIGN 6)", plan: sessions, changes: []change{
			{release, "AND f.release_reason IS DISTINCT FROM 'ended'", ""}}},
		{name: "ending another profile's session", rule: "a session belongs to its profile (spec 4.2)", plan: sessions, changes: []change{
			{"", "COALESCE(s.profile_id = $3, true)", "($3::uuid IS NULL OR true)"},
			{"", "COALESCE(s.profile_id = w.profile_id, true)", "true"},
			{release, "COALESCE(f.profile_id = w.profile_id, true)", "true"}}},
		{name: "no tombstone for an end before its start", rule: "never resurrects an ended session (DESIGN 6)", plan: sessions,
			forgets: tombstone, by: "DELETE FROM license_slots WHERE machine_id IS NULL"},
		{name: "an end that is not counted", rule: "in_use is the live rows (DESIGN 6)", plan: sessions, changes: []change{
			{endOne, "in_use - 1", "in_use"}}},
		{name: "a cancellation that is not counted", rule: "in_use is the live rows (DESIGN 6)", plan: sessions, changes: []change{
			{cancel, "in_use - 1", "in_use"}}},
		{name: "a batch of cancellations that is not counted", rule: "in_use is the live rows (DESIGN 6)", plan: cancellations, changes: []change{
			{"AND s.id = w.slot_id", "in_use - (SELECT count(*) FROM ended)", "in_use"}}},
		{name: "a replica assumes that its reservations never start", rule: "what a replica remembers is a hint", plan: sessions, changes: []change{
			{cancel, "AND s.state = 'reserved'", ""}}},
		{name: "reaping released slots", rule: "only live slots expire (spec 3.2)", plan: sessions, changes: []change{
			{expire, "released_at IS NULL AND license_stale(lease_until)\n\tLIMIT", "license_stale(lease_until)\n\tLIMIT"}}},
		{name: "two reapers, no lock", rule: "any replica may reap (DESIGN 6)", plan: reaping, changes: []change{
			{expire, "FOR UPDATE SKIP LOCKED", ""}}},
		{name: "releases that are not counted", rule: "in_use is the live rows (DESIGN 6)", plan: sessions, changes: []change{
			{counter, "in_use + $2", "in_use + GREATEST($2::int, 0)"}}},
	}
}
