package proof_test

import (
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/browser-svc/svc/cloud/internal/license"
)

// partition is what has a sequence of its own: one organization, from one moment of
// quiet to the next.
type partition struct{ era, org int }

// action is what is done to an organization.
type action int

const (
	begins     action = iota // the quiet moment before: what is held
	settles                  // the quiet moment after: the same question
	authorizes               // a session asks for a slot
	undoes                   // the slot of a caller who left is given back
	ends                     // a session is over
)

// operationInput is one operation. leaves is set for a caller who does not know the
// answer: it may have taken effect until the quiet moment.
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

// What a session is, in one byte; from holds on it has the slot of that number.
const (
	unknownSession byte = iota
	cancelledCall       // the same, after its caller left
	heldUnreported      // it holds a slot of which nobody was told
	tombstoneIdle       // it ended, and never had a slot
	tombstoneCrash
	endedIdle
	endedCrash
	holds
)

// limiterState is the state of the sequential limiter: how many slots are held, and
// what each session is.
type limiterState struct {
	live int
	is   string
}

func (c limiterState) of(session int) byte {
	if session >= len(c.is) {
		return unknownSession
	}
	return c.is[session]
}

// with returns the state in which the session is that.
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
	if holdsSlot(c.of(session)) {
		live--
	}
	return limiterState{live, next.String()}
}

func holdsSlot(is byte) bool   { return is == heldUnreported || is >= holds }
func hasEnded(is byte) bool    { return is >= tombstoneIdle && is <= endedCrash }
func holdsNoSlot(is byte) bool { return is <= cancelledCall }

// limiterModel is a limiter that does one thing at a time: a counter, and a set of
// the sessions that hold a slot.
//
// A grant says how many are held with it, one by one even within a batch. A
// refusal is of a moment within its call at which every slot was held. Whoever
// asks again gets the same slot, and the count of that moment. A session ends
// once, and the first reason stands. An authorize whose caller left takes a slot
// or does not; what it took is given back before the next quiet moment, unless
// the session asked again or ended: untaken is the same as taken and given back
// at the last moment. At a quiet moment the counter and the rows are exactly
// the state.
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
				is := c.of(q.session)
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
	is := c.of(q.session)
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
	is, was := c.of(q.session), c
	switch {
	case hasEnded(is):
	case holdsNoSlot(is):
		c = c.with(q.session, tombstoneIdle+byte(crashBit(q.reason)))
	default:
		c = c.with(q.session, endedIdle+byte(crashBit(q.reason)))
	}
	now := c.of(q.session)
	right := crashBit(a.reason) == int(now-tombstoneIdle)%2 && (a.slot == none) == (now < endedIdle)
	if was := was.of(q.session); was >= holds {
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

// isExactly reports whether the rows and the counter are those of the state.
func (c limiterState) isExactly(a operationOutput) bool {
	if c.live != a.current || c.live != len(a.live) {
		return false
	}
	for session, slot := range a.live {
		if c.of(session) != holds+byte(slot) {
			return false
		}
	}
	return true
}

func partitionHistory(history []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	at := map[partition]int{}
	for _, op := range history {
		key := op.Input.(operationInput).part
		i, ok := at[key]
		if !ok {
			i = len(parts)
			at[key] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}
