package proof_test

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// message converts an operation into the message that a worker would send now; nil if
// there is none.
func (p *scriptRunner) message(o operation) message {
	switch o.kind {
	case aRepeat:
		if len(p.sent) == 0 {
			return nil
		}
		return p.sent[(o.n*7+o.session)%len(p.sent)]
	case aReclaim:
		return reclaim{key: p.keyFor(o)}
	case aReap:
		return reclaim{reap: true}
	case aLimit:
		return limit{[]int{2, 1, 3, 0, 5, -1}[o.n%6]}
	case aList:
		return list{p.keyFor(o)}
	case anAudit:
		return audit{}
	case aRevoke:
		if o.n < 4 && p.m.keys[p.key(1)] { // the other key stays
			return revoke{p.key(1)}
		}
		return nil
	case aRemove:
		if o.n < 4 {
			return remove{}
		}
		return nil
	}
	q := p.report(o)
	p.sent = append(p.sent, q)
	if o.deviation == heldBack {
		return nil
	}
	return q
}

// report returns a worker's message about its sessions.
func (p *scriptRunner) report(o operation) message {
	w := p.session(o)
	if o.kind == aHeartbeat {
		return p.beat(o, w)
	}
	host, run, profile := w.machine, w.boot, w.profile
	switch o.deviation {
	case otherBoot:
		run = p.bootOn(host, o.n)
	case otherMachine:
		host = machineOf(o.session + 1)
		run = p.bootOn(host, 0)
	case otherProfile:
		profile = "another"
	}
	switch o.kind {
	case anAuthorize:
		if o.deviation == otherProfile && o.n%2 == 0 {
			profile = ""
		}
		q := authorize{key: p.keyFor(o), session: w.name, profile: profile, machine: host, boot: run}
		if w.spec && o.deviation != otherProfile {
			q.spec = true
		}
		q.waits = o.n%3 == 1 && !q.spec
		q.ended = p.carried(o, q)
		return q
	case aStart:
		p.seqs[run]++
		ago := []int{0, 0, 0, 0, 0, 30, 600, -3600, unreportedTTL - 60, unreportedTTL}[o.n%10]
		return start{
			key: p.keyFor(o), session: w.name, profile: profile, machine: host, boot: run, seq: p.seqs[run], startedAt: p.m.now - ago,
			tellsSlot: o.n%2 == 0, otherSlot: o.deviation == otherKey && o.n%2 == 0, unknownProfile: o.deviation == otherProfile && o.n%3 == 0,
		}
	}
	return p.endOf(o, w.name, profile)
}

func (p *scriptRunner) endOf(o operation, s session, by profile) end {
	how := [][2]string{{"exited", "unknown"}, {"exited", "crash"}, {"killed", "idle"}, {"killed", "client_close"}}[o.n%4]
	return end{key: p.keyFor(o), session: s, profile: by, status: how[0], reason: how[1]}
}

// carried returns the end that an authorize carries: that of the first listed session,
// mostly one of its machine; nil for none.
func (p *scriptRunner) carried(o operation, q authorize) *end {
	for i, each := range p.current {
		if each == nil || o.listed>>i&1 == 0 || each.name == q.session {
			continue
		}
		profile := each.profile
		if o.deviation == otherProfile {
			profile = q.profile
		}
		return new(p.endOf(o, each.name, profile))
	}
	return nil
}

// beat returns a heartbeat of a machine with its listed sessions, sometimes with those
// of others.
func (p *scriptRunner) beat(o operation, w *workerSession) message {
	run := p.bootOn(w.machine, 0)
	if o.deviation == otherBoot || o.deviation == otherProfile {
		run = p.bootOn(w.machine, o.n)
	}
	p.seqs[run]++
	q := heartbeat{key: p.keyFor(o), machine: w.machine, boot: run, seq: p.seqs[run]}
	for i, each := range p.current {
		if each != nil && o.listed>>i&1 == 1 && (each.machine == w.machine || o.deviation == otherMachine) {
			q.sessions = append(q.sessions, each.name)
		}
	}
	if o.n == 11 {
		q.sessions = append(q.sessions, "nobody's")
	}
	return q
}

func machineOf(i int) machine { return machine(fmt.Sprintf("worker-%d", i%2)) }

// bootOn returns the machine's boot, or an earlier one.
func (p *scriptRunner) bootOn(name machine, back int) boot {
	if len(p.boots[name]) == 0 {
		p.boots[name] = append(p.boots[name], p.newBoot())
	}
	all := p.boots[name]
	return all[max(0, len(all)-1-back%3)]
}

// session returns the session of the operation. An ended session may be replaced by a
// new one.
func (p *scriptRunner) session(o operation) *workerSession {
	w := p.current[o.session]
	if w != nil && o.fresh && o.kind == anAuthorize {
		if s, found := p.m.slots[w.name]; found && s.why == "ended" || found && !s.live() && o.n%3 == 0 {
			w = nil
		}
	}
	if w == nil {
		name := machineOf(o.session)
		born := 1
		if old := p.current[o.session]; old != nil {
			born = old.born + 1
		}
		w = &workerSession{
			name: session(fmt.Sprintf("session-%d.%d.%d", p.orgs, o.session, born)), born: born, machine: name, boot: p.bootOn(name, 0),
			profile: profile(fmt.Sprintf("profile-%d", o.session%3)), spec: o.session >= sessionsAtOnce-2,
		}
		if w.spec {
			w.profile = profile("of " + w.name)
		}
		p.current[o.session] = w
	}
	return w
}

func (p *scriptRunner) keyFor(o operation) string {
	if o.deviation == otherKey {
		return p.key(1)
	}
	return p.key(0)
}

// race runs all calls concurrently.
func (p *scriptRunner) race(contexts []context.Context, all []*call) {
	var group sync.WaitGroup
	off := make(chan struct{})
	for i, c := range all {
		group.Go(func() {
			<-off
			c.got = c.send(contexts[i], p.testEnv, c.replica)
		})
	}
	close(off)
	group.Wait()
}

// awaitIdle waits until the database has noticed that crashed clients are gone.
func (s *testEnv) awaitIdle() {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var busy int
		err := s.db.GetContext(s.t.Context(), &busy, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'`)
		if err != nil {
			s.t.Fatal(err)
		}
		if busy == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal("timeout waiting for idle connections")
		}
	}
}
