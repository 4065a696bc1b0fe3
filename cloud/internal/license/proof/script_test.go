package proof_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// kind is the kind of an operation.
type kind int

const (
	anAuthorize kind = iota
	aStart
	aHeartbeat
	anEnd
	aShift
	aRepeat // delivers a message that was sent, or held back, once more
	aReclaim
	aLimit
	aList
	aReap
	anAudit
	aRestart // a worker
	aRevoke
	aRemove
	anOtherOrg     // another organization appears, with the same machines, boots and sessions
	aStaleOtherOrg // one whose leases are over
	aBurst         // several at once
)

func (k kind) String() string {
	return [...]string{"authorize", "start", "heartbeat", "end", "shift", "repeat", "reclaim", "limit", "list", "reap", "audit",
		"restart", "revoke", "remove", "other organization", "stale other organization", "burst"}[k]
}

// deviation is how a message differs from a correct one.
type deviation int

const (
	noDeviation deviation = iota
	otherBoot
	otherMachine
	otherProfile
	otherKey
	heldBack // it is sent later
)

// crashKind is how a call is interrupted.
type crashKind int

const (
	noCrash       crashKind = iota
	callerLeft              // the caller is cancelled
	connLost                // the connection to the database breaks, once
	replicaKilled           // the replica is killed
)

func (f crashKind) String() string { return [...]string{"", "left", "cut", "died"}[f] }

// operation is one step of a script. It consists of plain numbers that get their
// meaning when it runs, so that every script, and every part of one, is valid.
type operation struct {
	kind      kind
	session   int
	replica   int
	deviation deviation
	n         int    // which of some values
	listed    uint16 // sessions of a heartbeat, or that end with an authorize, as bits
	fresh     bool   // a new session, if the one before is over
	crash     crashKind
	statement int
	after     bool
	burst     []operation
}

// GoString omits zero fields, so that a script can be copied into a test.
func (o operation) GoString() string {
	var fields []string
	add := func(name string, value any, is bool) {
		if is {
			fields = append(fields, fmt.Sprintf("%s: %v", name, value))
		}
	}
	add("kind", int(o.kind), true)
	add("session", o.session, o.session != 0)
	add("replica", o.replica, o.replica != 0)
	add("deviation", int(o.deviation), o.deviation != 0)
	add("n", o.n, o.n != 0)
	add("listed", o.listed, o.listed != 0)
	add("fresh", o.fresh, o.fresh)
	add("crash", int(o.crash), o.crash != noCrash)
	add("statement", o.statement, o.statement != 0)
	add("after", o.after, o.after)
	add("burst", fmt.Sprintf("%#v", o.burst), len(o.burst) > 0)
	return "{" + strings.Join(fields, ", ") + "}"
}

// sessionsAtOnce is the number of sessions of a script.
const sessionsAtOnce = 7

// script is a series of operations on a new organization.
type script struct {
	limit int
	most  int // profiles by spec
	ops   []operation
}

// GoString writes one operation per line.
func (s script) GoString() string {
	text := fmt.Sprintf("script{limit: %d, most: %d, ops: []operation{\n", s.limit, s.most)
	for _, o := range s.ops {
		text += fmt.Sprintf("\t%#v,\n", o)
	}
	return text + "}}"
}

// drawFrom draws an element of a list, which may contain duplicates.
func drawFrom[T any](t *rapid.T, label string, list ...T) T {
	return list[rapid.IntRange(0, len(list)-1).Draw(t, label)]
}

// weights are the relative frequencies of operations.
type weights map[kind]int

func (w weights) list() []kind {
	var all []kind
	for k := range aBurst + 1 {
		for range w[k] {
			all = append(all, k)
		}
	}
	return all
}

// singleCalls and concurrentCalls are the operations of the model test, sequential and
// concurrent. The others are for mutations of one area.
var (
	singleCalls = weights{
		anAuthorize: 20, aStart: 18, aHeartbeat: 18, anEnd: 10, aShift: 9, aRepeat: 10, aReclaim: 3, aLimit: 4, aList: 3, aReap: 2, anAudit: 1,
		aRestart: 3, aRevoke: 1, aRemove: 1, anOtherOrg: 2, aBurst: 12,
	}
	concurrentCalls = weights{
		anAuthorize: 30, aStart: 20, aHeartbeat: 20, anEnd: 15, aRepeat: 8, aReclaim: 8, aLimit: 4, aReap: 6, anAudit: 2, aList: 1, aRevoke: 1, aRemove: 1,
	}
	ofGrants   = weights{anAuthorize: 30, aStart: 4, anEnd: 6, aShift: 8, aReap: 1, aLimit: 6, aRepeat: 8, aRevoke: 5}
	ofQueue    = weights{anAuthorize: 34, aStart: 4, anEnd: 14, aShift: 4, aReap: 1, aLimit: 2, aRepeat: 10}
	ofSessions = weights{anAuthorize: 16, aStart: 24, anEnd: 18, aHeartbeat: 10, aShift: 10, aReap: 6, aRepeat: 12, aLimit: 4}
	ofMachines = weights{anAuthorize: 14, aStart: 20, aHeartbeat: 36, aRestart: 6, aShift: 10, aReap: 5, anEnd: 6, aRepeat: 10, aList: 3}
)

// draw draws an operation on one of that many sessions.
func draw(t *rapid.T, kinds []kind, sessions int) operation {
	o := operation{
		kind: drawFrom(t, "kind", kinds...), session: rapid.IntRange(0, sessions-1).Draw(t, "session"),
		replica: rapid.IntRange(0, replicas-1).Draw(t, "replica"), n: rapid.IntRange(0, 11).Draw(t, "n"),
		fresh:     rapid.Bool().Draw(t, "fresh"),
		deviation: drawFrom(t, "deviation", noDeviation, noDeviation, noDeviation, noDeviation, noDeviation, noDeviation, noDeviation, noDeviation, otherBoot, otherMachine, otherProfile, otherKey, heldBack),
	}
	if o.kind == aHeartbeat {
		o.listed = rapid.Uint16Range(0, 1<<sessionsAtOnce-1).Draw(t, "listed") | rapid.Uint16Range(0, 1<<sessionsAtOnce-1).Draw(t, "listed too")
	}
	return o
}

// carrying lets one authorize out of three carry an end.
func carrying(t *rapid.T, o operation) operation {
	if o.kind == anAuthorize && o.n%3 == 0 {
		o.listed = 1 << rapid.IntRange(0, sessionsAtOnce-1).Draw(t, "carried")
	}
	return o
}

// scripts generates the scripts of the model test.
func scripts() *rapid.Generator[script] {
	single, many := singleCalls.list(), concurrentCalls.list()
	inBurst := rapid.Custom(func(t *rapid.T) operation { return carrying(t, draw(t, many, sessionsAtOnce)) })
	return ofOperations(rapid.Custom(func(t *rapid.T) operation {
		o := carrying(t, draw(t, single, sessionsAtOnce))
		if o.kind == aBurst {
			o.burst = rapid.SliceOfN(inBurst, 2, 4).Draw(t, "burst")
		}
		o.crash = drawFrom(t, "crash", noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, noCrash, callerLeft, callerLeft, connLost, replicaKilled)
		if o.crash != noCrash {
			o.statement, o.after = rapid.IntRange(1, 7).Draw(t, "statement"), rapid.Bool().Draw(t, "after")
		}
		return o
	}))
}

// scriptsOf generates scripts with few sessions, sequential calls and without crashes.
func scriptsOf(w weights, sessions int) *rapid.Generator[script] {
	kinds := w.list()
	return ofOperations(rapid.Custom(func(t *rapid.T) operation { return draw(t, kinds, sessions) }))
}

func ofOperations(operations *rapid.Generator[operation]) *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) script {
		return script{
			limit: drawFrom(t, "limit", 2, 1, 3, 4, 6, 0, -1), most: rapid.IntRange(0, 3).Draw(t, "most"),
			ops: rapid.SliceOfN(operations, 30, 80).Draw(t, "operations"),
		}
	})
}
