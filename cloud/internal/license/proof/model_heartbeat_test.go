package proof_test

import "slices"

// The rules of the heartbeat (specification 3.2: worker-authoritative liveness
// for one machine; DESIGN 6). It has three steps, which may interleave with others:
// applyHeartbeat updates the machine and the leases, findUnknown finds unknown sessions,
// and reconcile releases and adopts.

// applyHeartbeat: an older heartbeat of the same boot is ignored. One of an outdated
// boot counts only if that boot proves to be alive (recordSupersededBoot). The leases of
// the listed sessions that hold a slot of the machine are extended.
func (m *model) applyHeartbeat(q heartbeat, a *answer) {
	h, found := m.machines[q.machine]
	switch {
	case found && h.boot == q.boot && h.seq > q.seq:
		a.verdict = "ignored"
		return
	case found && h.boot != q.boot && m.outdated(h, q.boot):
		m.recordSupersededBoot(q, a)
		return
	}
	m.machines[q.machine] = machineState{boot: q.boot, seq: q.seq, heard: m.now, past: h.replacedBy(q.boot, found)}
	m.hold(q, a)
}

// recordSupersededBoot: a superseded boot that reports again 10 s later is alive. This
// distinguishes two workers with one machine id from a restart (DESIGN 6).
func (m *model) recordSupersededBoot(q heartbeat, a *answer) {
	key := bootKey{q.machine, q.boot}
	l, found := m.late[key]
	switch {
	case !found:
		l = supersededBoot{since: m.now}
	case l.seq > q.seq:
		a.verdict = "ignored"
		return
	case m.now-l.heard >= heartbeatTTL: // it was silent for too long
		l = supersededBoot{since: m.now}
	case l.seq < q.seq && l.since <= m.now-supersededBootDelay:
		l.alive = true
	}
	l.seq, l.heard = q.seq, m.now
	m.late[key] = l
	if !l.alive {
		a.verdict = "ignored"
		return
	}
	a.late = true
	m.hold(q, a)
}

// hold: listed live sessions get a lease of five minutes and belong to the reporting
// boot.
func (m *model) hold(q heartbeat, a *answer) {
	for _, name := range q.sessions {
		if s, found := m.slots[name]; found && s.live() && s.machine == q.machine {
			s.boot, s.lease, s.untouched = q.boot, m.now+heartbeatTTL, false
			m.slots[name] = s
			a.accepted = append(a.accepted, name)
		}
	}
	a.allHeardOf = !slices.ContainsFunc(q.sessions, func(name session) bool { _, found := m.slots[name]; return !found })
}

// findUnknown: sessions without a row are unknown.
func (m *model) findUnknown(q heartbeat, a *answer) {
	for _, name := range q.sessions {
		if _, found := m.slots[name]; !found && m.isLatestReport(q, a) {
			a.unknown = append(a.unknown, name)
		}
	}
}

// reconcile: live sessions of the machine that are not listed are released, and listed
// ones that were released without an end report are adopted, even above the limit. If
// a later heartbeat was applied in between, that one does it instead.
func (m *model) reconcile(q heartbeat, a *answer) {
	a.verdict = "applied"
	var missing []session
	for _, name := range q.sessions {
		if !slices.Contains(a.accepted, name) && !slices.Contains(a.unknown, name) {
			missing = append(missing, name)
		}
	}
	if !m.isLatestReport(q, a) {
		return
	}
	for name, s := range m.slots {
		if m.omits(q, a, name, s) {
			m.slots[name] = s.released("omitted", "exited", "unknown")
			a.released = append(a.released, name)
		}
	}
	for _, name := range missing {
		s, found := m.slots[name]
		switch {
		case !found || s.machine != q.machine || s.why == "ended":
			a.unknown = append(a.unknown, name)
			continue
		case !s.live():
			m.slots[name] = s.adopted(q.boot, m.now)
		}
		a.accepted = append(a.accepted, name)
	}
}

func (s slot) adopted(b boot, now int) slot {
	s.state, s.why, s.status, s.reason = "reserved", "", "", ""
	if s.started {
		s.state, s.away = "running", false
	}
	s.boot, s.lease = b, now+heartbeatTTL
	return s
}

// isLatestReport reports whether no later heartbeat of the machine, or of the
// superseded boot, was applied.
func (m *model) isLatestReport(q heartbeat, a *answer) bool {
	if a.late {
		l, found := m.late[bootKey{q.machine, q.boot}]
		return found && l.seq == q.seq && l.alive
	}
	h, found := m.machines[q.machine]
	return found && h.boot == q.boot && h.seq == q.seq
}

// omits reports whether the heartbeat may release the session. Of its own boot:
// sessions that started before it (seq). Of another boot: running sessions, and
// reservations if that boot was replaced; but none while several workers share the
// machine id.
func (m *model) omits(q heartbeat, a *answer, name session, s slot) bool {
	switch {
	case !s.live() || s.machine != q.machine || slices.Contains(q.sessions, name):
		return false
	case s.boot == q.boot:
		return s.state == "running" && s.seq <= q.seq
	case m.shared(q.machine):
		return false
	}
	return s.state == "running" || !a.late && slices.Contains(m.machines[q.machine].past, s.boot)
}

// shared reports whether a superseded boot of the machine is alive and still reports.
func (m *model) shared(name machine) bool {
	for key, l := range m.late {
		if key.machine == name && l.alive && m.now-l.heard < heartbeatTTL {
			return true
		}
	}
	return false
}
