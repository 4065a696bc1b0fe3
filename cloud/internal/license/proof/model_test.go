package proof_test

import (
	"fmt"
	"maps"
	"slices"
)

// The leases, in seconds (specification 3.2, 8.6; DESIGN 6).
const (
	reservationTTL      = 2 * 60
	unreportedTTL       = 6 * 60 * 60
	maxReportDelay      = 60 * 60 // of a start without a reservation
	heartbeatTTL        = 5 * 60
	reapGrace           = 90 // after the start of a replica
	queueTTL            = 15 // of a place without a waiting call
	supersededBootDelay = 10 // delay after which a superseded boot that reports again is considered alive
)

// session, machine and profile are names of what has an id in the database.
type (
	session string
	machine string
	profile string
)

// boot is one run of a worker. Boots are numbered in order of their start. Most have a
// version 7 id, which shows their age.
type boot int

func (b boot) v7() bool             { return b%3 != 0 }
func (b boot) older(than boot) bool { return b.v7() && than.v7() && b < than }

// model is the expected license accounting of one organization at one moment. It has
// no counter: the usage is the number of live slots (DESIGN 6).
type model struct {
	now      int // seconds; only a script moves it
	exists   bool
	limit    int // of slots; negative is none (specification 8.1)
	most     int // profiles that launches by spec may make
	keys     map[string]bool
	slots    map[session]slot
	machines map[machine]machineState
	late     map[bootKey]supersededBoot
	queue    []queuedLaunch // in order of arrival
}

// queuedLaunch is a launch that waits for a slot.
type queuedLaunch struct {
	session session
	lease   int
}

// slot is one unit of concurrency from its reservation to its end.
type slot struct {
	state     string // reserved, running, released
	why       string // reason of the release: ended, omitted, lapsed
	status    string
	reason    string
	profile   profile
	created   bool // the profile was made for this launch
	away      bool // it does not count, since the slot was released without an end report
	machine   machine
	boot      boot
	seq       int
	reserved  int
	lease     int // when it expires
	started   bool
	untouched bool // a reservation that was not requested again
}

func (s slot) live() bool { return s.state != "released" }

// machineState is the last report of a machine. past are the superseded boots, latest
// first.
type machineState struct {
	boot  boot
	seq   int
	heard int
	past  []boot
}

type bootKey struct {
	machine machine
	boot    boot
}

// supersededBoot is a boot that reported after another boot replaced it.
type supersededBoot struct {
	seq, since, heard int
	alive             bool
}

func (m *model) clone() *model {
	c := *m
	c.keys, c.slots, c.machines, c.late = maps.Clone(m.keys), maps.Clone(m.slots), maps.Clone(m.machines), maps.Clone(m.late)
	c.queue = slices.Clone(m.queue)
	return &c
}

func (m *model) used() (n int) {
	for _, s := range m.slots {
		if s.live() {
			n++
		}
	}
	return n
}

// full implements the most important rule (specification 3.2, 8.2): no grant at the
// limit.
func (m *model) full() bool { return m.limit >= 0 && m.used() >= m.limit }

// waiting are the sessions in the queue: their place is not over, and they have neither a
// slot nor an end.
func (m *model) waiting() (all []session) {
	for _, p := range m.queue {
		if _, found := m.slots[p.session]; !found && p.lease > m.now {
			all = append(all, p.session)
		}
	}
	return all
}

// overtakes reports whether a new slot for the session would exceed the limit or be that
// of a launch ahead of it: who does not wait is behind all that do.
func (m *model) overtakes(q authorize) bool {
	ahead := m.waiting()
	if i := slices.Index(ahead, q.session); q.waits && i >= 0 {
		ahead = ahead[:i]
	}
	return m.limit >= 0 && m.used()+len(ahead) >= m.limit
}

// enqueue: a repeated request keeps its place while its lease lasts.
func (m *model) enqueue(s session) (position int) {
	if !slices.Contains(m.waiting(), s) {
		m.dequeue(s)
		m.queue = append(m.queue, queuedLaunch{session: s})
	}
	i := slices.IndexFunc(m.queue, func(p queuedLaunch) bool { return p.session == s })
	m.queue[i].lease = m.now + queueTTL
	return slices.Index(m.waiting(), s) + 1
}

func (m *model) dequeue(s session) {
	m.queue = slices.DeleteFunc(m.queue, func(p queuedLaunch) bool { return p.session == s })
}

// usage returns the counter of an answer, which includes the call's own slot.
func (m *model) usage() string { return fmt.Sprintf("%d of %d", m.used(), m.limit) }

func (m *model) profiles() (n int) {
	for _, s := range m.slots {
		if s.live() && s.created && !s.away {
			n++
		}
	}
	return n
}

// A call whose organization is removed while it runs returns "gone".

// authenticate: a revoked key is invalid from the next call on (specification 5.3).
func (m *model) authenticate(key string, a *answer) {
	switch {
	case !m.exists:
		a.verdict = "gone"
	case !m.keys[key]:
		a.verdict = "unauthenticated"
	}
}

// reserve: a slot is reserved below the limit. A repeated request refers to the same
// slot, whose lease is renewed (DESIGN 6).
func (m *model) reserve(q authorize, a *answer) {
	s, found := m.slots[q.session]
	switch {
	case !found && q.waits && m.overtakes(q):
		a.verdict, a.count = "queued", fmt.Sprintf("place %d", m.enqueue(q.session))
	case !found && m.overtakes(q):
		a.verdict, a.count = "concurrency_limit", m.usage()
		a.noProfileToo = q.spec && m.profiles() >= m.most
	case !found && q.spec && m.profiles() >= m.most:
		a.verdict, a.count = "profile_limit", fmt.Sprintf("%d of %d, %d profiles", m.used(), m.most, m.profiles())
	case !found:
		m.slots[q.session] = slot{
			state: "reserved", profile: q.profile, created: q.spec, machine: q.machine, boot: q.boot,
			reserved: m.now, lease: m.now + reservationTTL, untouched: true,
		}
		if q.waits {
			m.dequeue(q.session)
		}
		a.verdict, a.count, a.created = "granted", m.usage(), true
	case !s.live() || s.machine != q.machine || s.boot != q.boot || !q.spec && q.profile != "" && !s.acceptsProfile(q.profile):
		a.verdict = "conflict"
	default:
		if s.state == "reserved" {
			s.lease, s.untouched = max(s.lease, m.now+reservationTTL), false
			m.slots[q.session] = s
		}
		a.verdict, a.count = "granted", m.usage()
	}
}

func (s slot) acceptsProfile(p profile) bool { return s.profile == "" || s.profile == p }

// findCarriedEnd: a carried end applies only if its session holds a slot of the
// requesting machine. applyCarriedEnd: it is applied before the launch is decided,
// like an end report.
func (m *model) findCarriedEnd(q authorize, a *answer) {
	s, found := m.slots[q.ended.session]
	a.carried = found && s.live() && s.machine == q.machine
}

func (m *model) applyCarriedEnd(q authorize, a *answer) {
	if a.carried && m.exists {
		m.end(*q.ended, &answer{})
	}
}

// undo: the reservation of a cancelled caller is removed, unless its session was
// requested again (DESIGN 6: cancelled callers never leak a slot).
func (m *model) undo(q authorize, a *answer) {
	if s, found := m.slots[q.session]; a.created && found && s.state == "reserved" && s.untouched {
		delete(m.slots, q.session)
	}
}

// reclaimForLaunch: before a launch is refused, the organization's expired slots are
// reclaimed (DESIGN 6); by a replica in its grace period only reservations, because
// workers could not report. It reports whether there were any.
func (m *model) reclaimForLaunch(launch step, grace bool) bool {
	var dry answer
	launch(m.clone(), &dry)
	return slices.Contains([]string{"concurrency_limit", "profile_limit", "no slot", "queued"}, dry.verdict) && m.expire(!grace) > 0
}

// start: the session runs. It consumes its reservation, also an expired one; a
// repeated start is the same session; an ended session stays ended; without a
// reservation a slot is taken as by authorize (specification 3.2; DESIGN 6). The start
// time is clamped to the time between the reservation and now.
func (m *model) start(q start, a *answer) {
	s, found := m.slots[q.session]
	switch {
	case !found && q.unknownProfile:
		a.verdict = "not found"
		return
	case found && (s.why == "ended" || s.why == "omitted" || s.machine != q.machine || s.boot != q.boot ||
		!s.acceptsProfile(q.profile) || q.otherSlot):
		a.verdict = "conflict"
		return
	case found && s.profile == "" && q.unknownProfile: // it was not checked before
		a.verdict = "not found"
		return
	case (!found || !s.live()) && m.full():
		a.verdict, a.count = "no slot", m.usage()
		return
	}
	a.verdict = "running"
	m.register(q.machine, q.boot)
	if s.state == "running" {
		s.seq = max(s.seq, q.seq) // a later report has other labels
		m.slots[q.session] = s
		return
	}
	if !found {
		if s.reserved = m.now; q.startedAt < m.now && q.startedAt >= m.now-maxReportDelay {
			s.reserved = q.startedAt
		}
	}
	m.slots[q.session] = slot{
		state: "running", reserved: s.reserved, profile: q.profile, created: s.created, machine: q.machine, boot: q.boot, seq: q.seq,
		lease: max(s.reserved, min(q.startedAt, m.now)) + unreportedTTL, started: true,
	}
}

// register: the start of a new boot replaces the machine's boot, so that a late
// heartbeat of the old boot releases nothing of the new one.
func (m *model) register(name machine, b boot) {
	h, found := m.machines[name]
	if !found || h.boot != b && !m.outdated(h, b) {
		m.machines[name] = machineState{boot: b, heard: m.now, past: h.replacedBy(b, found)}
	}
}

// outdated: a boot that was replaced, or is older than the machine's boot, is ignored
// while the machine's boot reports (DESIGN 6).
func (m *model) outdated(h machineState, b boot) bool {
	return m.now-h.heard < heartbeatTTL && (slices.Contains(h.past, b) || b.older(h.boot))
}

func (h machineState) replacedBy(b boot, found bool) []boot {
	if !found || h.boot == b {
		return h.past
	}
	past := slices.DeleteFunc(slices.Clone(h.past), func(p boot) bool { return p == b })
	return slices.Concat([]boot{h.boot}, past)
}

// end: the slot is released once; the first report stands. An unknown session gets a
// tombstone, so that its start can't follow (specification 3.2; DESIGN 6).
func (m *model) end(q end, a *answer) {
	s, found := m.slots[q.session]
	switch {
	case found && !s.acceptsProfile(q.profile):
		a.verdict = "not found"
	case s.why == "ended":
		a.verdict = "ended " + s.reason
	default:
		if !found {
			s = slot{profile: q.profile}
		}
		m.slots[q.session] = s.released("ended", q.status, q.reason)
		a.verdict = "ended " + q.reason
	}
}

func (s slot) released(why, status, reason string) slot {
	s.state, s.why, s.status, s.reason = "released", why, status, reason
	s.untouched = false
	s.created, s.away = s.created && why != "ended", why != "ended" // the profile of a launch is deleted at its end
	return s
}

// expire is the rule of staleness for the flag, the reaper and the reclaim: the lease
// has expired (specification 3.2). The end of the session was not reported.
func (m *model) expire(sessions bool) (n int) {
	for name, s := range m.slots {
		if s.live() && s.lease <= m.now && (sessions || s.state == "reserved") {
			m.slots[name] = s.released("lapsed", "exited", "unknown")
			n++
		}
	}
	return n
}

// shift lets time pass. remove removes the organization with all of its data (DESIGN
// 5). A new limit ends no session; it only refuses (DESIGN 6).
func (m *model) shift(seconds int)  { m.now += seconds }
func (m *model) remove()            { *m = model{now: m.now, limit: m.limit, most: m.most} }
func (m *model) setLimit(limit int) { m.limit = limit }
