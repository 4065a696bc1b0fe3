package proof_test

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/shared/testenv"
)

// mutantOperations bounds the operations that are run to detect one mutation. Most are
// detected within the first hundred.
const mutantOperations = 8000

// TestMutations_AreDetected disables one rule at a time. The quick run has one mutation of each plan.
func TestMutations_AreDetected(t *testing.T) {
	dsn := dbtest.NewDSN(t)
	var table strings.Builder
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "mutation\trule\tcaught by\tafter operations")
	var played []plan
	plans := map[string]bool{}
	for _, m := range mutations() {
		if plans[m.plan.name] && !testenv.Full() {
			continue
		}
		plans[m.plan.name] = true
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			v, seeds, after := catch(t, dsn, m.ready())
			if missed := m.unmatched(); len(missed) > 0 {
				t.Fatalf("the mutation matched no statement: %q", missed)
			}
			if v == nil {
				t.Fatalf("%d operations did not detect that this rule is disabled: %s", after, m.rule)
			}
			fmt.Fprintf(rows, "%s\t%s\t%s: %s\t%d\n", m.name, m.rule, m.plan.name, v.kind, after)
			t.Logf("after %d operations: %s, %s", after, v.kind, v.story)
			played = append(played, plan{m.plan.name, m.plan.script, seeds})
		})
	}
	rows.Flush()
	t.Logf("\n%s", table.String())
	t.Run("and_nothing_else", func(t *testing.T) { control(t, dsn, played) })
}

// plan is a series of scripts that detects a mutation.
type plan struct {
	name   string
	script func(seed int) script
	seeds  int // number of scripts that were run
}

// catch runs scripts until a result differs from the model.
func catch(t *testing.T, dsn string, m *mutation) (v *violation, seed, after int) {
	t.Helper()
	var counted tally
	p := &scriptRunner{testEnv: newTestEnv(t, dsn, m), tally: &counted}
	t.Cleanup(func() { p.exec(`DELETE FROM organizations`) })
	for counted.operations < mutantOperations && (v == nil || len(m.unmatched()) > 0) {
		seed++
		if found := p.play(m.plan.script(seed)); v == nil && found != nil {
			v, after = found, counted.operations
		}
	}
	return v, seed, max(after, 1)
}

// control runs the same scripts without a mutation, to show that only the mutations
// are detected.
func control(t *testing.T, dsn string, played []plan) {
	t.Helper()
	most := map[string]plan{}
	for _, each := range played {
		if each.seeds > most[each.name].seeds {
			most[each.name] = each
		}
	}
	p := &scriptRunner{testEnv: newTestEnv(t, dsn, nil), tally: &tally{}}
	for _, each := range most {
		for seed := range each.seeds {
			if v := p.play(each.script(seed + 1)); v != nil {
				t.Fatalf("%s, seed %d: %s, %s", each.name, seed+1, v.kind, v.story)
			}
		}
	}
	t.Logf("%d operations without a mutation", p.tally.operations)
}

// The plans.
var (
	models   = plan{name: "the model", script: func(seed int) script { return scripts().Example(seed) }}
	grants   = plan{name: "the model, of grants", script: func(seed int) script { return scriptsOf(ofGrants, sessionsAtOnce).Example(seed) }}
	sessions = plan{name: "the model, of sessions", script: func(seed int) script { return scriptsOf(ofSessions, 3).Example(seed) }}
	queues   = plan{name: "the model, of the queue", script: func(seed int) script { return scriptsOf(ofQueue, sessionsAtOnce).Example(seed) }}
	machines = plan{name: "the model, of machines", script: func(seed int) script { return scriptsOf(ofMachines, 3).Example(seed) }}

	relaunches       = plan{name: "launches that carry an end", script: relaunchScript}
	lastSlot         = plan{name: "race: three replicas, one slot", script: lastSlotScript}
	inBatches        = plan{name: "race: four callers, one replica", script: batchScript}
	cancellations    = plan{name: "race: failed launches, one replica", script: failedLaunchScript}
	cancelledTwice   = plan{name: "race: a cancelled caller, and two more", script: cancelledRepeatScript}
	reaping          = plan{name: "race: two reapers and a reclaim", script: reaperScript}
	takenOver        = plan{name: "race: a last heartbeat and a new boot's start", script: takeoverScript}
	duplicateRaces   = plan{name: "race: two heartbeats of a superseded boot", script: lateHeartbeatScript}
	tenants          = plan{name: "two organizations with the same sessions", script: twoOrgScript}
	cancelled        = plan{name: "a cancelled caller", script: cancelledScript}
	expiredStarts    = plan{name: "start of an expired reservation", script: expiredStartScript}
	duplicateWorkers = plan{name: "two workers of one machine", script: twoWorkerScript}
	restarts         = plan{name: "a replica that has just started", script: restartScript}
	leaseEnds        = plan{name: "at the end of a lease", script: leaseEndScript}
)

// relaunchScript takes the only slot repeatedly, each time with the end of the
// previous session. The last launch comes from another machine and is refused.
func relaunchScript(seed int) script {
	return repeatTenTimes(1, seed, operation{kind: anAuthorize, fresh: true}, operation{kind: aStart},
		operation{kind: anAuthorize, session: 2, fresh: true, listed: 1, replica: seed % replicas}, operation{kind: aStart, session: 2}, operation{kind: anEnd},
		operation{kind: anAuthorize, session: 4, fresh: true, listed: 1 << 2}, operation{kind: anAuthorize, session: 1, fresh: true, listed: 1 << 4},
		operation{kind: anEnd, session: 4}, operation{kind: anEnd, session: 2})
}

// lastSlotScript authorizes concurrently for the last slot at every replica.
func lastSlotScript(seed int) script {
	race := operation{kind: aBurst}
	for i := range replicas {
		race.burst = append(race.burst, operation{kind: anAuthorize, session: 1 + i, replica: i, fresh: true})
	}
	return repeatTenTimes(2, seed, operation{kind: anAuthorize, fresh: true}, race)
}

// batchScript authorizes concurrently at one replica, which batches the calls.
func batchScript(seed int) script {
	race := operation{kind: aBurst}
	for i := range 4 {
		race.burst = append(race.burst, operation{kind: anAuthorize, session: i, replica: seed % replicas, fresh: true})
	}
	return repeatTenTimes(2, seed, race)
}

// failedLaunchScript reports several failed launches to the replica that authorized
// them.
func failedLaunchScript(seed int) script {
	var ops []operation
	race := operation{kind: aBurst}
	for i := range 4 {
		ops = append(ops, operation{kind: anAuthorize, session: i, replica: seed % replicas, fresh: true})
		race.burst = append(race.burst, operation{kind: anEnd, session: i, replica: seed % replicas})
	}
	return repeatTenTimes(-1, seed, append(ops, race)...)
}

// cancelledRepeatScript cancels a caller whose session is authorized again at other
// replicas.
func cancelledRepeatScript(seed int) script {
	return repeatTenTimes(3, seed, operation{kind: aBurst, crash: callerLeft, statement: 2 + seed%2, after: true, burst: []operation{
		{kind: anAuthorize, fresh: true}, {kind: anAuthorize, replica: 1, fresh: true}, {kind: anAuthorize, replica: 2, fresh: true}}})
}

// reaperScript reclaims the same slots concurrently.
func reaperScript(seed int) script {
	race := operation{kind: aBurst, burst: []operation{{kind: aReap}, {kind: aReap, replica: 1}, {kind: aReclaim, replica: 2}}}
	return repeatTenTimes(-1, seed, operation{kind: anAuthorize, fresh: true}, operation{kind: anAuthorize, session: 1, fresh: true},
		operation{kind: aShift, n: 9}, race)
}

// takeoverScript sends the last heartbeat of a boot while the first session of the
// next boot starts.
func takeoverScript(seed int) script {
	race := operation{kind: aBurst, burst: []operation{{kind: aHeartbeat, deviation: otherBoot, n: 1}, {kind: aStart, session: 2, replica: 1}}}
	return repeatTenTimes(4, seed, operation{kind: anAuthorize, fresh: true}, operation{kind: aStart}, operation{kind: aHeartbeat, listed: 1},
		operation{kind: aRestart}, operation{kind: anAuthorize, session: 2, fresh: true}, race,
		operation{kind: anEnd}, operation{kind: anEnd, session: 2})
}

// lateHeartbeatScript sends two heartbeats of a superseded boot that is proven alive: the
// first omits the session that the second lists.
func lateHeartbeatScript(seed int) script {
	what := twoWorkerScript(seed)
	for i := range 6 {
		what.ops = append(what.ops, operation{kind: aBurst, burst: []operation{
			{kind: aHeartbeat, deviation: otherBoot, n: 1, replica: i % replicas},
			{kind: aHeartbeat, deviation: otherBoot, n: 1, listed: 1, replica: (i + 1) % replicas}}})
	}
	return what
}

func cancelledScript(seed int) script {
	return repeatTenTimes(3, seed, operation{kind: anAuthorize, fresh: true, crash: callerLeft, statement: 2 + seed%2, after: true})
}

// expiredStartScript starts a session whose reservation was reclaimed: while another
// session holds the last slot, and after that one has ended.
func expiredStartScript(seed int) script {
	return repeatTenTimes(1, seed, operation{kind: anAuthorize, fresh: true}, operation{kind: aShift, n: 5}, operation{kind: aReap},
		operation{kind: anAuthorize, session: 1, fresh: true}, operation{kind: aStart}, operation{kind: anEnd, session: 1},
		operation{kind: aStart}, operation{kind: anEnd})
}

// twoWorkerScript runs two workers with one machine id: the second replaces the first,
// which continues. One heartbeat of the first arrives twice, the second time after the
// next one.
func twoWorkerScript(seed int) script {
	first := operation{kind: aHeartbeat, deviation: otherBoot, n: 1, listed: 1}
	second := operation{kind: aHeartbeat, session: 2, listed: 1 << 2}
	what := script{limit: 5, ops: []operation{
		{kind: anAuthorize, fresh: true}, {kind: aStart}, {kind: aHeartbeat, listed: 1},
		{kind: aRestart}, {kind: anAuthorize, session: 2}, {kind: aStart, session: 2}, second,
		first, first, {kind: aRepeat, session: 6}, {kind: aShift}, {kind: aRepeat, n: 1}, {kind: aShift, n: 1}, first, {kind: aShift}, second, first, second,
	}}
	for i := range what.ops {
		what.ops[i].replica = (seed + i) % replicas
	}
	return what
}

// twoOrgScript runs all operations on a session by its id, beside another organization
// with the same ids: it is held, omitted, adopted, ended and reclaimed.
func twoOrgScript(seed int) script {
	both, second := operation{kind: aHeartbeat, listed: 1 | 1<<2}, operation{kind: aHeartbeat, listed: 1 << 2}
	what := script{limit: 5, ops: []operation{
		{kind: anAuthorize, fresh: true}, {kind: aStart}, {kind: anAuthorize, session: 2, fresh: true}, {kind: aStart, session: 2}, both,
		{kind: anOtherOrg}, both, {kind: anOtherOrg}, second, {kind: anOtherOrg}, both, {kind: anOtherOrg}, {kind: anEnd},
		{kind: aStaleOtherOrg}, {kind: aShift, n: 9}, {kind: aReclaim},
	}}
	for i := range what.ops {
		what.ops[i].replica = (seed + i) % replicas
	}
	return what
}

// leaseEndScript lists and reclaims 5 s before and at the end of a lease.
func leaseEndScript(seed int) script {
	return repeatTenTimes(2, seed, operation{kind: anAuthorize, fresh: true}, operation{kind: aStart}, operation{kind: aHeartbeat, listed: 1},
		operation{kind: aShift, n: 7}, operation{kind: aList}, operation{kind: aReclaim}, operation{kind: aShift, n: 1},
		operation{kind: aList}, operation{kind: aReclaim}, operation{kind: anEnd})
}

// restartScript authorizes at a replica that was just restarted, when the lease of a
// session has expired, and then that of a reservation.
func restartScript(seed int) script {
	replica := seed % replicas
	return repeatTenTimes(1, seed, operation{kind: anAuthorize, fresh: true}, operation{kind: aStart}, operation{kind: aHeartbeat, listed: 1},
		operation{kind: aShift, n: 7}, operation{kind: aList, replica: replica, crash: replicaKilled, statement: 1}, operation{kind: aShift, n: 1},
		operation{kind: anAuthorize, session: 1, replica: replica, fresh: true}, operation{kind: anEnd},
		operation{kind: anAuthorize, fresh: true}, operation{kind: aShift, n: 4}, operation{kind: aList, replica: replica, crash: replicaKilled, statement: 1},
		operation{kind: aShift, n: 1}, operation{kind: anAuthorize, session: 1, replica: replica, fresh: true}, operation{kind: anEnd, session: 1})
}

// repeatTenTimes returns a script that repeats the operations ten times and lets all
// slots expire in between.
func repeatTenTimes(limit, seed int, ops ...operation) script {
	what := script{limit: limit, most: 2}
	for range 10 {
		what.ops = append(what.ops, ops...)
		what.ops = append(what.ops, operation{kind: aShift, n: 9}, operation{kind: aReap, replica: seed % replicas})
	}
	return what
}
