package proof_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// maxScriptTime bounds the duration of a script: the progress of the database's own
// clock must stay below the smallest time step of a script, 5 s.
const maxScriptTime = 4 * time.Second

// timeSteps are the steps in which time passes, around the lease durations.
var timeSteps = []int{30, 5, 10, 60, 115, 120, 240, 295, 300, 600, unreportedTTL - 300, unreportedTTL}

// scriptRunner runs scripts and compares the results with the model.
type scriptRunner struct {
	*testEnv
	m       *model
	sent    []message
	current [sessionsAtOnce]*workerSession
	boots   map[machine][]boot
	seqs    map[boot]int
	tally   *tally
}

// workerSession is a session as its worker knows it.
type workerSession struct {
	name    session
	born    int
	machine machine
	boot    boot
	profile profile
	spec    bool
}

// play runs a script and returns the first difference from the model, or nil.
func (p *scriptRunner) play(what script) *violation {
	p.reset()
	p.m = &model{limit: what.limit, most: what.most}
	p.newOrganization(p.m, 2)
	p.dropOtherOrg()
	p.sent, p.current, p.boots, p.seqs = nil, [sessionsAtOnce]*workerSession{}, map[machine][]boot{}, map[boot]int{}
	began := time.Now()
	for i, o := range what.ops {
		v := p.do(o)
		if time.Since(began) > maxScriptTime && (v == nil || !v.hung) {
			p.tally.abandoned++
			break
		}
		if v != nil {
			v.step = i
			v.story = fmt.Sprintf("number %d of the script, %v: %s", i+1, o.kind, v.story)
			return v
		}
	}
	return p.finish(time.Since(began) <= maxScriptTime)
}

// finish lets all leases expire and removes the organization.
func (p *scriptRunner) finish(judged bool) *violation {
	p.dropOtherOrg()
	if p.m.exists {
		p.shift(unreportedTTL + 3600)
		if _, err := p.replicas[0].Reclaim(p.t.Context(), p.org); err != nil {
			return &violation{kind: "other", story: "the last reclaim: " + err.Error()}
		}
		if found := p.readTables(); judged && (found.Orgs[0].InUse != 0 || len(found.live(p.testEnv)) != 0) {
			return &violation{kind: "leaked slot", story: "after all leases lapsed and a reclaim:\n" + found.lines(p.testEnv)}
		}
	}
	if a := (remove{}).send(p.t.Context(), p.testEnv, p.replicas[0]); a.err != nil {
		return &violation{kind: "other", story: "the removal: " + a.err.Error()}
	}
	p.exec(`DELETE FROM feed`)
	p.exec(`DELETE FROM made`)
	return nil
}

// do runs one operation.
func (p *scriptRunner) do(o operation) *violation {
	p.tally.operations++
	p.clock.Advance(time.Microsecond) // so that the search for expired slots is not throttled
	if !p.m.exists {
		p.newOrganization(p.m, 2)
	}
	switch o.kind {
	case aShift:
		seconds := timeSteps[o.n%len(timeSteps)]
		p.m.shift(seconds)
		p.shift(seconds)
		return nil
	case aRestart:
		name := machineOf(o.session)
		p.boots[name] = append(p.boots[name], p.newBoot())
		return nil
	case anOtherOrg, aStaleOtherOrg:
		p.newOtherOrg(o.kind == aStaleOtherOrg)
		return nil
	case aBurst:
		var all []*call
		for _, each := range o.burst {
			p.tally.operations++
			if q := p.message(each); q != nil {
				all = append(all, &call{message: q, replica: p.replicas[each.replica]})
			}
		}
		p.tally.operations--
		return p.together(all, o)
	}
	q := p.message(o)
	if q == nil {
		return nil
	}
	return p.together([]*call{{message: q, replica: p.replicas[o.replica]}}, o)
}

// call is a message in progress.
type call struct {
	message
	replica *replica
	grace   bool // of the replica
	fate    crashKind
	last    bool // sent after all others had ended
	got     answer
}

// together runs the calls concurrently, and searches for an order of their steps that
// explains the answers and the tables.
func (p *scriptRunner) together(all []*call, o operation) *violation {
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	for _, c := range all {
		c.grace = p.clock.Now().Sub(c.replica.started) < reapGrace*time.Second
	}
	if slices.ContainsFunc(all, func(c *call) bool { return waits(c.message) }) {
		o.crash = noCrash // TestQueue_* interrupt calls that wait
	}
	crashed := p.send(ctx, all, o)
	p.tally.count(all, crashed)
	for _, c := range all {
		if c.got.err != nil && wrongSQL(c.got.err) {
			p.t.Fatalf("a mutation is no SQL: %v", c.got.err)
		}
	}
	if len(all) > 1 && p.m.exists {
		// Reclaim the slots that a concurrent reclaim skipped because they were locked.
		all = append(all, &call{message: reclaim{reap: true}, replica: p.replicas[0], last: true})
		last := all[len(all)-1]
		last.got = last.send(ctx, p.testEnv, last.replica)
	}
	found := p.readTables()
	rows := found.lines(p.testEnv)
	search := search{calls: all, want: rows, counts: len(all) == 1 && !crashed}
	after := search.explain(p.m)
	if after != nil && found.Feed == 0 && found.OtherOrg == p.otherOrgRows {
		p.m = after
		return nil
	}
	return p.violation(all, found, rows)
}

// send runs the calls, one of which may crash, and reports whether it did.
func (p *scriptRunner) send(ctx context.Context, all []*call, o operation) (crashed bool) {
	disarm := func() bool { return false }
	contexts := make([]context.Context, len(all))
	for i := range all {
		contexts[i] = ctx
	}
	first := all[0].replica
	if o.crash != noCrash {
		own, leave := context.WithCancel(ctx)
		defer leave()
		contexts[0] = own
		disarm = first.driver.arm(&crash{number: o.statement, after: o.after, kind: o.crash, leave: leave})
	}
	if len(all) == 1 {
		all[0].got = all[0].send(contexts[0], p.testEnv, first)
	} else {
		p.race(contexts, all)
	}
	if !disarm() {
		return false
	}
	for i, c := range all {
		if c.replica == first && (i == 0 || o.crash != callerLeft) {
			c.fate = o.crash
		}
	}
	p.restart(first)
	p.awaitIdle()
	return true
}

// violation describes a difference from the model.
type violation struct {
	kind  string // another's, over-grant, leaked slot, wrongful release, grant lost or other
	story string
	step  int
	hung  bool // a call did not return in time
}

func (p *scriptRunner) violation(all []*call, found tableRows, rows string) *violation {
	var story strings.Builder
	for _, c := range all {
		fmt.Fprintf(&story, "\n  %T %+v %v\n    came to: %v", c.message, c.message, c.fate, c.got)
	}
	expected := p.m.clone()
	var a answer
	for _, c := range all {
		a = answer{}
		for _, step := range c.steps() {
			if launches(c.message) {
				expected.reclaimForLaunch(step, c.grace)
			}
			if a.verdict == "" {
				step(expected, &a)
			}
		}
	}
	if len(all) == 1 {
		fmt.Fprintf(&story, "\n  should be: %v", a)
	}
	fmt.Fprintf(&story, "\nbefore:\n%s\nafter (- one after the other, + really):\n%s", formatModel(p.m), cmp.Diff(formatModel(expected), rows))
	if found.Feed != 0 {
		fmt.Fprintf(&story, "\nthe feed has %d sessions otherwise", found.Feed)
	}
	if found.OtherOrg != p.otherOrgRows {
		fmt.Fprintf(&story, "\nanother organization has:\n%s", cmp.Diff(p.otherOrgRows, found.OtherOrg))
	}
	hung := slices.ContainsFunc(all, func(c *call) bool { return errors.Is(c.got.err, context.DeadlineExceeded) })
	return &violation{kind: p.classify(all, expected, found), story: story.String(), hung: hung}
}

// classify names the violated rule.
func (p *scriptRunner) classify(all []*call, expected *model, found tableRows) string {
	if found.OtherOrg != p.otherOrgRows {
		return "another's"
	}
	live := found.live(p.testEnv)
	if p.m.limit >= 0 && len(live) > max(p.m.limit, expected.used(), p.m.used()) {
		return "over-grant"
	}
	for _, c := range all {
		if q, ok := c.message.(authorize); ok && c.got.verdict == "granted" && !live[q.session] && expected.slots[q.session].live() {
			return "grant lost"
		}
	}
	for name, s := range expected.slots {
		if s.live() && !live[name] {
			return "wrongful release"
		}
	}
	for name := range live {
		if s, known := expected.slots[name]; !known || !s.live() {
			return "leaked slot"
		}
	}
	if len(found.Orgs) == 1 && found.Orgs[0].InUse != len(live) {
		return "wrong counter"
	}
	return "other"
}
