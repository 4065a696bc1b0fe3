package proof_test

import (
	"fmt"
	"maps"
	"slices"
)

// The leases, in seconds (specification 3.2, 8.6; DESIGN 6).
const (
	reservationTTL = 2 * 60
	unreportedTTL  = 6 * 60 * 60
	heartbeatTTL   = 5 * 60
	reapGrace      = 90 // after the start of a replica
	lateProof      = 10 // how much later a replaced boot must report again to be believed
)

// session, machine and profile are names of what has an id in the database.
type (
	session string
	machine string
	profile string
)

// boot is one run of a worker; they are numbered in order of their start. The
// ids of most are of version 7, which tells their age.
type boot int

func (b boot) v7() bool             { return b%3 != 0 }
func (b boot) older(than boot) bool { return b.v7() && than.v7() && b < than }

// model is what one organization's license accounting shall be at one moment. It
// counts nothing: what is in use is the slots that are live (DESIGN 6).
type model struct {
	now      int // seconds; only a script moves it
	exists   bool
	limit    int // of slots; negative is none (specification 8.1)
	most     int // profiles that launches by spec may make
	keys     map[string]bool
	slots    map[session]slot
	machines map[machine]machineState
	late     map[lateKey]lateBoot
}

// slot is one unit of concurrency from its reservation to its end.
type slot struct {
	state     string // reserved, running, released
	why       string // it was released: ended, omitted, lapsed
	status    string
	reason    string
	profile   profile
	made      bool // the profile was made for this launch
	away      bool // it does not count, since the launch was given up
	machine   machine
	boot      boot
	seq       int
	reserved  int
	lease     int // when it lapses
	started   bool
	untouched bool // a reservation as it was made: nobody asked for it again
}

func (s slot) live() bool { return s.state != "released" }

// machineState is what a machine said last. past are the boots that were replaced, the
// latest first.
type machineState struct {
	boot  boot
	seq   int
	heard int
	past  []boot
}

type lateKey struct {
	machine machine
	boot    boot
}

// lateBoot is a boot that reported after another one took its machine over.
type lateBoot struct {
	seq, since, heard int
	alive             bool
}

func (m *model) clone() *model {
	c := *m
	c.keys, c.slots, c.machines, c.late = maps.Clone(m.keys), maps.Clone(m.slots), maps.Clone(m.machines), maps.Clone(m.late)
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

// full is the rule above all (specification 3.2, 8.2): no grant at the limit.
func (m *model) full() bool { return m.limit >= 0 && m.used() >= m.limit }

// usage is what an answer says of the counter, which includes the call's own slot.
func (m *model) usage() string { return fmt.Sprintf("%d of %d", m.used(), m.limit) }

func (m *model) profiles() (n int) {
	for _, s := range m.slots {
		if s.live() && s.made && !s.away {
			n++
		}
	}
	return n
}

// A call whose organization is removed meanwhile comes to nothing: "gone".

// authenticate: a key that was revoked opens nothing from the next call on
// (specification 5.3).
func (m *model) authenticate(key string, a *answer) {
	switch {
	case !m.exists:
		a.verdict = "gone"
	case !m.keys[key]:
		a.verdict = "unauthenticated"
	}
}

// reserve: a slot is reserved if there is room. Asking again for the same session
// is about the same slot, which is held for the full time from then (DESIGN 6).
func (m *model) reserve(q authorize, a *answer) {
	s, found := m.slots[q.session]
	switch {
	case !found && m.full():
		a.verdict, a.count = "concurrency_limit", m.usage()
		a.noProfileToo = q.spec && m.profiles() >= m.most
	case !found && q.spec && m.profiles() >= m.most:
		a.verdict, a.count = "profile_limit", fmt.Sprintf("%d of %d, %d profiles", m.used(), m.most, m.profiles())
	case !found:
		m.slots[q.session] = slot{
			state: "reserved", profile: q.profile, made: q.spec, machine: q.machine, boot: q.boot,
			reserved: m.now, lease: m.now + reservationTTL, untouched: true,
		}
		a.verdict, a.count, a.made = "granted", m.usage(), true
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

// findCarriedEnd: an end that travels with an authorize is looked at only where its
// session holds a slot of the machine that asks; applyCarriedEnd: that is ended before
// the launch is decided, as by its own report.
func (m *model) findCarriedEnd(q authorize, a *answer) {
	s, found := m.slots[q.ended.session]
	a.carried = found && s.live() && s.machine == q.machine
}

func (m *model) applyCarriedEnd(q authorize, a *answer) {
	if a.carried && m.exists {
		m.end(*q.ended, &answer{})
	}
}

// undo: the reservation of a caller who left is taken back, unless its session
// was asked for again (DESIGN 6: cancelled callers never leak a slot).
func (m *model) undo(q authorize, a *answer) {
	if s, found := m.slots[q.session]; a.made && found && s.state == "reserved" && s.untouched {
		delete(m.slots, q.session)
	}
}

// reclaimForLaunch: an organization without a slot, or a profile for a spec, is searched
// for lapsed slots before a launch is refused (DESIGN 6); by a replica in its grace for reservations only, since the
// workers could not report. It tells whether there were any.
func (m *model) reclaimForLaunch(launch step, grace bool) bool {
	var dry answer
	launch(m.clone(), &dry)
	return slices.Contains([]string{"concurrency_limit", "profile_limit", "no slot"}, dry.verdict) && m.expire(!grace) > 0
}

// start: the session runs. It consumes its reservation, one that has expired too;
// the same start again is the same session; what has ended stays so; without a
// reservation a slot is taken like by authorize (specification 3.2; DESIGN 6). A
// worker's clock moves it neither before the reservation nor into the future.
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
		return
	}
	if !found {
		s.reserved = m.now
	}
	m.slots[q.session] = slot{
		state: "running", reserved: s.reserved, profile: q.profile, made: s.made, machine: q.machine, boot: q.boot, seq: q.seq,
		lease: max(s.reserved, min(q.startedAt, m.now)) + unreportedTTL, started: true,
	}
}

// register: the start of a new boot replaces the machine's, so that a late
// heartbeat of the boot before releases nothing of the new one.
func (m *model) register(name machine, b boot) {
	h, found := m.machines[name]
	if !found || h.boot != b && !m.outdated(h, b) {
		m.machines[name] = machineState{boot: b, heard: m.now, past: h.replacedBy(b, found)}
	}
}

// outdated: a boot that was replaced, or is older than the machine's, is not
// listened to while the machine's is heard of (DESIGN 6).
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

// end: the slot is free, once; the first report stands. A session never heard of
// is remembered, so that its start can't come after (specification 3.2; DESIGN 6).
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
	s.made, s.away = s.made && why != "ended", why != "ended" // the profile of one launch goes with its end
	return s
}

// expire is the one stale rule, of the flag, the reaper and the reclaim: a lease
// that is over (specification 3.2). Nobody saw how the session ended.
func (m *model) expire(sessions bool) (n int) {
	for name, s := range m.slots {
		if s.live() && s.lease <= m.now && (sessions || s.state == "reserved") {
			m.slots[name] = s.released("lapsed", "exited", "unknown")
			n++
		}
	}
	return n
}

// shift lets time pass. remove is the end of the organization: nothing of it is
// left (DESIGN 5). A new limit ends nothing; it only refuses (DESIGN 6).
func (m *model) shift(seconds int) { m.now += seconds }
func (m *model) remove()           { *m = model{now: m.now, limit: m.limit, most: m.most} }
func (m *model) setLimit(to int)   { m.limit = to }
