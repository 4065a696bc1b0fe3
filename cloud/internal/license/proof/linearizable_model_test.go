package proof_test

import (
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/browser-svc/svc/cloud/internal/license"
)

// partition identifies an independent sequence: one organization between two idle
// moments.
type partition struct{ era, org int }

// action is the kind of an operation.
type action int

const (
	begins     action = iota // the idle moment before: the held slots
	settles                  // the idle moment after: likewise
	authorizes               // a session requests a slot
	undoes                   // the slot of a cancelled caller is released
	ends                     // a session ends
)

// operationInput is one operation. leaves is set for a cancelled caller: the operation
// may take effect until the idle moment.
type operationInput struct {
	part    partition
	what    action
	session int // a number of the part's
	limit   int
	reason  license.EndReason
	leaves  bool
}

// none is the slot of a session that never had one.
const none = -1

// operationOutput is its answer.
type operationOutput struct {
	granted, conflict bool
	current           int
	slot              int
	reason            license.EndReason
	live              map[int]int // for begins and settles: the slot of each session that has one
}

// The state of a session, in one byte; from holds on it has the slot with that number.
const (
	unknownSession byte = iota
	cancelledCall       // the same, after its caller was cancelled
	heldUnreported      // it holds a slot that no caller knows of
	tombstoneIdle       // it ended without ever having a slot
	tombstoneCrash
	endedIdle
	endedCrash
	holds
)

// limiterState is the state of the sequential limiter: the number of held slots, and
// the state of each session.
type limiterState struct {
	live int
	is   string
}

func (c limiterState) state(session int) byte {
	if session >= len(c.is) {
		return unknownSession
	}
	return c.is[session]
}

// with returns the state with a changed session.
func (c limiterState) with(session int, is byte) limiterState {
	var next strings.Builder
	next.Grow(max(len(c.is), session+1))
	next.WriteString(c.is[:min(session, len(c.is))])
	for next.Len() < session {
		next.WriteByte(unknownSession)
	}
	next.WriteByte(is)
	if session+1 < len(c.is) {
		next.WriteString(c.is[session+1:])
	}
	live := c.live
	if holdsSlot(is) {
		live++
	}
	if holdsSlot(c.state(session)) {
		live--
	}
	return limiterState{live, next.String()}
}

func holdsSlot(is byte) bool   { return is == heldUnreported || is >= holds }
func hasEnded(is byte) bool    { return is >= tombstoneIdle && is <= endedCrash }
func holdsNoSlot(is byte) bool { return is <= cancelledCall }

// limiterModel is a sequential limiter: a counter, and the set of sessions that hold a
// slot.
//
// A grant returns the number of held slots including its own, one by one even within a
// batch. A refusal refers to a moment during its call at which every slot was held. A
// repeated request gets the same slot and the count of its moment. A session ends
// once; the first reason stands. An authorize of a cancelled caller takes a slot or
// does not; the slot is released before the next idle moment, unless the session was
// requested again or ended: not taking a slot is equivalent to taking and releasing it
// at the last moment. At an idle moment the counter and the rows match the state
// exactly.
func limiterModel() porcupine.Model {
	return porcupine.Model{
		Partition: partitionHistory,
		Init:      func() any { return limiterState{} },
		Step: func(state, input, output any) (bool, any) {
			c, q, a := state.(limiterState), input.(operationInput), output.(operationOutput)
			switch q.what {
			case begins:
				for session, slot := range a.live {
					c = c.with(session, holds+byte(slot))
				}
				return c.live == a.current, c
			case settles:
				return c.isExactly(a), c
			case undoes:
				is := c.state(q.session)
				if is == heldUnreported {
					c = c.with(q.session, cancelledCall)
				}
				return is != unknownSession, c // not before its authorize
			case authorizes:
				return c.authorize(q, a)
			default:
				return c.end(q, a)
			}
		},
	}
}

func (c limiterState) authorize(q operationInput, a operationOutput) (bool, limiterState) {
	is := c.state(q.session)
	switch {
	case q.leaves:
		switch {
		case holdsNoSlot(is) && c.live < q.limit:
			c = c.with(q.session, heldUnreported)
		case holdsNoSlot(is):
			c = c.with(q.session, cancelledCall)
		}
		return true, c
	case a.conflict:
		return hasEnded(is), c
	case !a.granted:
		return holdsNoSlot(is) && c.live >= q.limit && a.current == c.live, c
	case holdsNoSlot(is) && c.live >= q.limit, hasEnded(is), is >= holds && is != holds+byte(a.slot):
		return false, c
	}
	c = c.with(q.session, holds+byte(a.slot))
	return a.current == c.live, c
}

func (c limiterState) end(q operationInput, a operationOutput) (bool, limiterState) {
	is, was := c.state(q.session), c
	switch {
	case hasEnded(is):
	case holdsNoSlot(is):
		c = c.with(q.session, tombstoneIdle+byte(crashBit(q.reason)))
	default:
		c = c.with(q.session, endedIdle+byte(crashBit(q.reason)))
	}
	now := c.state(q.session)
	right := crashBit(a.reason) == int(now-tombstoneIdle)%2 && (a.slot == none) == (now < endedIdle)
	if was := was.state(q.session); was >= holds {
		right = right && was == holds+byte(a.slot)
	}
	return right, c
}

func crashBit(reason license.EndReason) int {
	if reason == license.Crash {
		return 1
	}
	return 0
}

// isExactly reports whether rows and counter match the state.
func (c limiterState) isExactly(a operationOutput) bool {
	if c.live != a.current || c.live != len(a.live) {
		return false
	}
	for session, slot := range a.live {
		if c.state(session) != holds+byte(slot) {
			return false
		}
	}
	return true
}

func partitionHistory(history []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	index := map[partition]int{}
	for _, op := range history {
		key := op.Input.(operationInput).part
		i, ok := index[key]
		if !ok {
			i = len(parts)
			index[key] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}
