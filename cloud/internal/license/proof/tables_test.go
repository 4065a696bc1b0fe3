package proof_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// formatModel formats a model. The database matches if its rows are formatted equally.
func formatModel(m *model) string {
	var all []string
	if m.exists {
		all = append(all, fmt.Sprintf("organization: %d in use of %d, %d profiles made", m.used(), m.limit, m.profiles()))
	}
	if waiting := m.waiting(); len(waiting) > 0 {
		all = append(all, fmt.Sprintf("queue: %v", waiting))
	}
	for name, s := range m.slots {
		all = append(all, formatSlot(name, s, s.lease-m.now))
	}
	for name, h := range m.machines {
		all = append(all, formatMachine(name, h, m.now-h.heard))
	}
	for key := range m.keys {
		all = append(all, "key "+key)
	}
	for key, l := range m.late {
		all = append(all, formatSupersededBoot(key, l, m.now-l.since, m.now-l.heard))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func formatSlot(name session, s slot, lease int) string {
	if !s.live() {
		return fmt.Sprintf("%s: released, %s (%s, %s), of %s on %q, seq %d, ran %t", name, s.why, s.status, s.reason, s.profile, s.machine, s.seq, s.started)
	}
	return fmt.Sprintf("%s: %s, of %s on %q by boot %d, seq %d, %d s left, ran %t, untouched %t",
		name, s.state, s.profile, s.machine, s.boot, s.seq, lease, s.started, s.untouched)
}

func formatMachine(name machine, h machineState, ago int) string {
	return fmt.Sprintf("%s: boot %d, seq %d, heard %d s ago, past %v", name, h.boot, h.seq, ago, h.past)
}

func formatSupersededBoot(key bootKey, l supersededBoot, since, ago int) string {
	return fmt.Sprintf("%s: superseded boot %d, seq %d, since %d s, heard %d s ago, alive %t", key.machine, key.boot, l.seq, since, ago, l.alive)
}

// tablesSQL reads the tables in the form of a model.
const tablesSQL = `
SELECT json_build_object(
	'orgs', (SELECT json_agg(o) FROM (SELECT in_use, COALESCE(max_slots, -1) AS max_slots,
		(SELECT count(*) FROM made WHERE organization_id = $1 AND NOT away) AS made FROM license_org WHERE organization_id = $1) o),
	'slots', (SELECT json_agg(s) FROM (SELECT session_id, state, COALESCE(release_reason::text, '') AS why, COALESCE(end_status::text, '') AS status,
		COALESCE(end_reason, '') AS reason, profile_id, COALESCE(machine_id, '') AS machine, boot_id, seq,
		(ceil(extract(epoch FROM lease_until - clock_timestamp()) / 5) * 5)::int AS lease, started_at IS NOT NULL AS started,
		state = 'reserved' AND lease_until = reserved_at + interval '2 minutes' AS untouched
		FROM license_slots WHERE organization_id = $1) s),
	'queue', (SELECT json_agg(q.session_id ORDER BY place) FROM license_queue q WHERE organization_id = $1 AND lease_until > clock_timestamp()
		AND NOT EXISTS (SELECT FROM license_slots s WHERE s.organization_id = $1 AND s.session_id = q.session_id)),
	'queueDrift', (SELECT o.queued - count(q.session_id) FROM license_org o LEFT JOIN license_queue q USING (organization_id)
		WHERE organization_id = $1 GROUP BY o.queued),
	'machines', (SELECT json_agg(m) FROM (SELECT machine_id, boot_id, seq, past_boots,
		(floor(extract(epoch FROM clock_timestamp() - heartbeat_at) / 5) * 5)::int AS heard FROM license_machines WHERE organization_id = $1) m),
	'keys', (SELECT json_agg(id) FROM api_keys WHERE organization_id = $1 AND revoked_at IS NULL),
	'late', (SELECT json_agg(l) FROM (SELECT machine_id, boot_id, seq, alive_since IS NOT NULL AS alive,
		(floor(extract(epoch FROM clock_timestamp() - since) / 5) * 5)::int AS since,
		(floor(extract(epoch FROM clock_timestamp() - heartbeat_at) / 5) * 5)::int AS heard FROM license_superseded_boots WHERE organization_id = $1) l),
	'feed', (SELECT count(*) FROM (SELECT * FROM feed WHERE organization_id = $1) f
		FULL JOIN (SELECT * FROM license_slots WHERE organization_id = $1) s USING (session_id) WHERE EXISTS (SELECT FROM license_org WHERE organization_id = $1) AND (
			COALESCE(f.running, false) <> COALESCE(s.state = 'running', false)
			OR s.state = 'released' AND s.started_at IS NOT NULL AND f.reason IS DISTINCT FROM s.end_reason)),
	'otherOrg', (SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT o::text AS line FROM license_org o WHERE organization_id = $2 UNION ALL SELECT s::text FROM license_slots s WHERE organization_id = $2
		UNION ALL SELECT m::text FROM license_machines m WHERE organization_id = $2
		UNION ALL SELECT l::text FROM license_superseded_boots l WHERE organization_id = $2) n))`

// readTables reads the rows of the organization and of the other organization.
func (s *testEnv) readTables() tableRows {
	s.t.Helper()
	var text []byte
	if err := s.tables.GetContext(s.t.Context(), &text, s.org, s.otherOrg); err != nil {
		s.t.Fatalf("look at the tables: %v", err)
	}
	var found tableRows
	if err := json.Unmarshal(text, &found); err != nil {
		s.t.Fatal(err)
	}
	return found
}

// tableRows are the rows of one organization.
type tableRows struct {
	Orgs []struct {
		InUse int `json:"in_use"`
		Max   int `json:"max_slots"`
		Made  int `json:"made"`
	}
	Slots []struct {
		Session   uuid.UUID `json:"session_id"`
		State     string
		Why       string
		Status    string
		Reason    string
		Profile   *uuid.UUID `json:"profile_id"`
		Machine   string
		Boot      *uuid.UUID `json:"boot_id"`
		Seq       int
		Lease     int
		Started   bool
		Untouched bool
	}
	Machines []struct {
		Machine string      `json:"machine_id"`
		Boot    uuid.UUID   `json:"boot_id"`
		Past    []uuid.UUID `json:"past_boots"`
		Seq     int
		Heard   int
	}
	Late []struct {
		Machine string    `json:"machine_id"`
		Boot    uuid.UUID `json:"boot_id"`
		Seq     int
		Alive   bool
		Since   int
		Heard   int
	}
	Keys       []uuid.UUID
	Queue      []uuid.UUID
	QueueDrift int // of the counter
	Feed       int

	OtherOrg string // all rows of the other organization
}

// lines formats the rows like formatModel.
func (r tableRows) lines(s *testEnv) string {
	var all []string
	for _, o := range r.Orgs {
		all = append(all, fmt.Sprintf("organization: %d in use of %d, %d profiles made", o.InUse, o.Max, o.Made))
	}
	if len(r.Queue) > 0 {
		all = append(all, fmt.Sprintf("queue: %v", s.names(r.Queue)))
	}
	if r.QueueDrift != 0 {
		all = append(all, fmt.Sprintf("the counter of the queue is off by %d", r.QueueDrift))
	}
	for _, row := range r.Slots {
		like := slot{
			state: row.State, why: row.Why, status: row.Status, reason: row.Reason, machine: machine(row.Machine), seq: row.Seq,
			started: row.Started, untouched: row.Untouched,
		}
		if row.Profile != nil {
			like.profile = profile(s.names([]uuid.UUID{*row.Profile})[0])
		}
		if row.Boot != nil {
			like.boot = s.bootOf(*row.Boot)
		}
		all = append(all, formatSlot(s.names([]uuid.UUID{row.Session})[0], like, row.Lease))
	}
	for _, row := range r.Machines {
		like := machineState{boot: s.bootOf(row.Boot), seq: row.Seq}
		for _, past := range row.Past {
			like.past = append(like.past, s.bootOf(past))
		}
		all = append(all, formatMachine(machine(row.Machine), like, row.Heard))
	}
	for _, key := range s.names(r.Keys) {
		all = append(all, "key "+string(key))
	}
	for _, row := range r.Late {
		key := bootKey{machine(row.Machine), s.bootOf(row.Boot)}
		all = append(all, formatSupersededBoot(key, supersededBoot{seq: row.Seq, alive: row.Alive}, row.Since, row.Heard))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func (s *testEnv) bootOf(id uuid.UUID) boot { return boot(slices.Index(s.boots, id)) }

// live returns the sessions that hold a slot.
func (r tableRows) live(s *testEnv) map[session]bool {
	live := map[session]bool{}
	for _, row := range r.Slots {
		if row.State != "released" {
			live[s.names([]uuid.UUID{row.Session})[0]] = true
		}
	}
	return live
}
