package proof_test

import (
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/browser-svc/svc/cloud/internal/license"
)

// part is what has a sequence of its own: one organization, from one moment of
// quiet to the next.
type part struct{ era, org int }

// deed is what is done to an organization.
type deed int

const (
	begins     deed = iota // the quiet moment before: what is held
	settles                // the quiet moment after: the same question
	authorizes             // a session asks for a slot
	undoes                 // the slot of a caller who left is given back
	ends                   // a session is over
)

// question is one operation. leaves is set for a caller who does not know the
// answer: it may have taken effect until the quiet moment.
type question struct {
	part    part
	what    deed
	session int // a number of the part's
	limit   int
	reason  license.EndReason
	leaves  bool
}

// none is the slot of a session that never had one.
const none = -1

// reply is its answer.
type reply struct {
	granted, conflict bool
	current           int
	slot              int
	reason            license.EndReason
	live              map[int]int // for begins and settles: the slot of each session that has one
}

// What a session is, in one byte; from holds on it has the slot of that number.
const (
	unheardOf   byte = iota
	leftAlone        // the same, after its caller left
	takenInVain      // it holds a slot of which nobody was told
	buriedIdle       // it ended, and never had a slot
	buriedCrash
	endedIdle
	endedCrash
	holds
)

// counted is the state of the sequential limiter: how many slots are held, and
// what each session is.
type counted struct {
	live int
	is   string
}

func (c counted) of(session int) byte {
	if session >= len(c.is) {
		return unheardOf
	}
	return c.is[session]
}

// with returns the state in which the session is that.
func (c counted) with(session int, is byte) counted {
	var next strings.Builder
	next.Grow(max(len(c.is), session+1))
	next.WriteString(c.is[:min(session, len(c.is))])
	for next.Len() < session {
		next.WriteByte(unheardOf)
	}
	next.WriteByte(is)
	if session+1 < len(c.is) {
		next.WriteString(c.is[session+1:])
	}
	live := c.live
	if holding(is) {
		live++
	}
	if holding(c.of(session)) {
		live--
	}
	return counted{live, next.String()}
}

func holding(is byte) bool { return is == takenInVain || is >= holds }
func over(is byte) bool    { return is >= buriedIdle && is <= endedCrash }
func free(is byte) bool    { return is <= leftAlone }

// counting is a limiter that does one thing at a time: a counter, and a set of
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
func counting() porcupine.Model {
	return porcupine.Model{
		Partition: byPart,
		Init:      func() any { return counted{} },
		Step: func(state, input, output any) (bool, any) {
			c, q, a := state.(counted), input.(question), output.(reply)
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
				if is == takenInVain {
					c = c.with(q.session, leftAlone)
				}
				return is != unheardOf, c // not before its authorize
			case authorizes:
				return c.authorize(q, a)
			default:
				return c.end(q, a)
			}
		},
	}
}

func (c counted) authorize(q question, a reply) (bool, counted) {
	is := c.of(q.session)
	switch {
	case q.leaves:
		switch {
		case free(is) && c.live < q.limit:
			c = c.with(q.session, takenInVain)
		case free(is):
			c = c.with(q.session, leftAlone)
		}
		return true, c
	case a.conflict:
		return over(is), c
	case !a.granted:
		return free(is) && c.live >= q.limit && a.current == c.live, c
	case free(is) && c.live >= q.limit, over(is), is >= holds && is != holds+byte(a.slot):
		return false, c
	}
	c = c.with(q.session, holds+byte(a.slot))
	return a.current == c.live, c
}

func (c counted) end(q question, a reply) (bool, counted) {
	is, was := c.of(q.session), c
	switch {
	case over(is):
	case free(is):
		c = c.with(q.session, buriedIdle+byte(crashed(q.reason)))
	default:
		c = c.with(q.session, endedIdle+byte(crashed(q.reason)))
	}
	now := c.of(q.session)
	right := crashed(a.reason) == int(now-buriedIdle)%2 && (a.slot == none) == (now < endedIdle)
	if was := was.of(q.session); was >= holds {
		right = right && was == holds+byte(a.slot)
	}
	return right, c
}

func crashed(reason license.EndReason) int {
	if reason == license.Crash {
		return 1
	}
	return 0
}

// isExactly reports whether the rows and the counter are those of the state.
func (c counted) isExactly(a reply) bool {
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

func byPart(history []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	at := map[part]int{}
	for _, op := range history {
		key := op.Input.(question).part
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
