package proof_test

import "slices"

// search looks for an order of the steps of concurrent calls in which the model gives
// the same answers and ends in the same state as the tables. If one exists, the calls
// are linearizable in the steps of the model.
type search struct {
	calls  []*call
	want   string // the tables, as formatModel formats them
	counts bool   // also compare the returned counts
}

// branch is the progress of all calls in one order.
type branch struct {
	m        *model
	progress []int // steps taken
	answers  []answer
	over     []bool
}

// explain returns the model after the calls, or nil.
func (s *search) explain(m *model) *model {
	n := len(s.calls)
	return s.explore(branch{m, make([]int, n), make([]answer, n), make([]bool, n)})
}

func (s *search) explore(b branch) *model {
	open := 0
	for i := range s.calls {
		if b.over[i] {
			continue
		}
		open++
		if s.calls[i].last && open > 1 {
			continue
		}
		for _, next := range s.next(i, b) {
			if found := s.explore(next); found != nil {
				return found
			}
		}
	}
	if open == 0 && formatModel(b.m) == s.want {
		return b.m
	}
	return nil
}

// with returns the branch after a step of one call, which changed the model.
func (b branch) with(i int, m *model, a answer, over bool) branch {
	next := branch{m, append([]int(nil), b.progress...), append([]answer(nil), b.answers...), append([]bool(nil), b.over...)}
	next.progress[i]++
	if a.allHeardOf && next.progress[i] == 1 {
		next.progress[i]++ // there is no unknown session to find
	}
	next.answers[i], next.over[i] = a, over
	return next
}

// next returns the possible next steps of a call.
func (s *search) next(i int, b branch) []branch {
	c, steps := s.calls[i], s.calls[i].steps()
	if b.progress[i] == len(steps) { // the reservation of a cancelled caller is undone
		after, a := b.m.clone(), b.answers[i]
		after.undo(c.message.(authorize), &a)
		return []branch{b.with(i, after, a, true)}
	}
	step := steps[b.progress[i]]
	before := b.m.clone()
	var all []branch
	if launches(c.message) && before.reclaimForLaunch(step, c.grace) {
		searched := b.with(i, before, b.answers[i], false)
		searched.progress[i]-- // the slot is not taken yet
		all = append(all, searched)
		if len(s.calls) == 1 && !c.cutShort() && !waits(c.message) {
			return all
		}
		before = b.m.clone() // the search may have been throttled, or may have skipped locked slots
	}
	if c.cutShort() {
		all = append(all, b.with(i, b.m, b.answers[i], true))
	}
	if waits(c.message) && len(s.calls) > 1 && b.progress[i] == len(steps)-1 && !b.answers[i].joined {
		all = append(all, s.join(i, b))
	}
	return append(all, s.take(i, b, before, step)...)
}

func launches(q message) bool {
	switch q.(type) {
	case authorize, start:
		return true
	}
	return false
}

// waits reports whether a call joins the queue. It can reclaim before it is served.
func waits(q message) bool {
	request, ok := q.(authorize)
	return ok && request.waits
}

// join returns the branch in which a call that waits has joined the queue, and has yet to
// take its turn: meanwhile its place counts for the others.
func (s *search) join(i int, b branch) branch {
	after := b.m.clone()
	if q := s.calls[i].message.(authorize); after.exists && after.keys[q.key] {
		if _, found := after.slots[q.session]; !found {
			after.enqueue(q.session)
		}
	}
	joined := b.with(i, after, b.answers[i], false)
	joined.progress[i] = b.progress[i]
	joined.answers[i].joined = true
	return joined
}

// isSuperseded reports whether a concurrent call can have taken over the place of a call
// that waits.
func (s *search) isSuperseded(i int) bool {
	own, _ := s.calls[i].message.(authorize)
	for j, c := range s.calls {
		if other, ok := c.message.(authorize); ok && j != i && own.waits && other.session == own.session {
			return s.calls[i].got.verdict == "queued"
		}
	}
	return false
}

// cutShort reports whether the call may have ended after any step: only its error is
// known.
func (c *call) cutShort() bool { return c.fate != noCrash && c.got.verdict == "error" }

// take applies the step.
func (s *search) take(i int, b branch, m *model, step step) (all []branch) {
	c, a := s.calls[i], b.answers[i]
	if s.isSuperseded(i) && b.progress[i] == len(c.steps())-1 {
		after := m.clone()
		if _, found := m.slots[c.message.(authorize).session]; !found {
			after.enqueue(c.message.(authorize).session)
		}
		all = append(all, b.with(i, after, answer{verdict: "queued"}, true))
	}
	a.accepted, a.unknown = slices.Clip(a.accepted), slices.Clip(a.unknown)
	step(m, &a)
	switch {
	case a.verdict == "":
		return []branch{b.with(i, m, a, false)}
	case c.got.is(a) && (!s.counts || c.got.count == a.count):
		all = append(all, b.with(i, m, a, true))
	case !c.cutShort():
		return nil
	}
	q, reserves := c.message.(authorize)
	switch {
	case !reserves || !a.created:
		if c.cutShort() {
			all = append(all, b.with(i, m, a, true))
		}
	case c.cutShort(): // its reservation is undone, unless its replica was killed
		if c.fate == replicaKilled {
			all = append(all, b.with(i, m, a, true))
		}
		all = append(all, b.with(i, m, a, false))
	case c.fate == connLost: // the answer was lost, and the replica asked again
		after := m.clone()
		after.reserve(q, &answer{})
		all = append(all, b.with(i, after, a, true))
	}
	return all
}
