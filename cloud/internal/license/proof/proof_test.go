package proof_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/shared/testenv"
)

const (
	players = 3 // run in parallel, each on its own database
)

func TestModel_MatchesAccounting(t *testing.T) {
	target := testenv.Depth(2000, 20_000)
	if text := os.Getenv("MODEL_OPERATIONS"); text != "" {
		var err error
		if target, err = strconv.Atoi(text); err != nil {
			t.Fatalf("MODEL_OPERATIONS: %v", err)
		}
	}
	var counted [players]tally
	began := time.Now()
	t.Run("side_by_side", func(t *testing.T) {
		for i := range players {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				playRandomly(t, &counted[i], target/players)
			})
		}
	})
	all := tally{found: map[string]int{}}
	for i := range counted {
		all.add(&counted[i])
	}
	t.Logf("%v, in %s", all, time.Since(began).Round(time.Second))
	// An abandoned script was compared with the model up to its last operation. On a
	// busy machine these are many.
	if all.abandoned*5 > all.scripts*4 {
		t.Errorf("%d of %d scripts took too long to be judged to their end", all.abandoned, all.scripts)
	}
}

// playRandomly runs random scripts until that many operations have run.
func playRandomly(t *testing.T, counted *tally, target int) {
	counted.found = map[string]int{}
	p := &scriptRunner{testEnv: newTestEnv(t, dbtest.NewDSN(t), nil), tally: counted}
	for counted.operations < target && !t.Failed() {
		rapid.Check(t, func(rt *rapid.T) {
			if counted.operations >= target && len(counted.found) == 0 {
				return
			}
			what := scripts().Draw(rt, "script")
			if counted.scripts++; counted.scripts%200 == 0 {
				p.exec(`VACUUM license_slots, license_machines, license_org, license_superseded_boots, license_events, feed, made`)
			}
			if v := p.play(what); v != nil {
				counted.found[v.kind]++
				rt.Fatalf("%s: %s", v.kind, v.story)
			}
		})
	}
}

// tally counts the operations and the violations.
type tally struct {
	scripts, operations, atOnce, abandoned    int
	grants, refusals, queued                  int
	heartbeats, crashes                       int
	authorizes, starts, ends, reclaims, plans int
	found                                     map[string]int // violations by kind
}

func (t *tally) add(other *tally) {
	for _, each := range []struct{ sum, part *int }{
		{&t.scripts, &other.scripts}, {&t.operations, &other.operations}, {&t.atOnce, &other.atOnce}, {&t.abandoned, &other.abandoned},
		{&t.grants, &other.grants}, {&t.refusals, &other.refusals}, {&t.queued, &other.queued}, {&t.heartbeats, &other.heartbeats}, {&t.crashes, &other.crashes},
		{&t.authorizes, &other.authorizes}, {&t.starts, &other.starts}, {&t.ends, &other.ends}, {&t.reclaims, &other.reclaims}, {&t.plans, &other.plans},
	} {
		*each.sum += *each.part
	}
	for kind, n := range other.found {
		t.found[kind] += n
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%d operations in %d scripts over %d replicas, %d of them several at once: %d authorizes (%d grants, %d refusals, %d queued), "+
		"%d starts, %d ends, %d heartbeats, %d reclaims, %d changes of plan, %d crashes; %d scripts abandoned.\n"+
		"over-grants %d, leaked slots %d, wrongful releases %d, acknowledged grants lost %d, of another organization %d, other differences %d",
		t.operations, t.scripts, replicas, t.atOnce, t.authorizes, t.grants, t.refusals, t.queued, t.starts, t.ends, t.heartbeats, t.reclaims, t.plans,
		t.crashes, t.abandoned, t.found["over-grant"], t.found["leaked slot"], t.found["wrongful release"], t.found["grant lost"], t.found["another's"],
		t.found["wrong counter"]+t.found["other"])
}

func (t *tally) count(all []*call, crashed bool) {
	if crashed {
		t.crashes++
	}
	if len(all) > 1 {
		t.atOnce += len(all)
	}
	for _, c := range all {
		switch c.got.verdict {
		case "granted":
			t.grants++
		case "concurrency_limit", "profile_limit", "no slot":
			t.refusals++
		case "queued":
			t.queued++
		}
		switch c.message.(type) {
		case authorize:
			t.authorizes++
		case start:
			t.starts++
		case end:
			t.ends++
		case heartbeat:
			t.heartbeats++
		case reclaim:
			t.reclaims++
		case limit:
			t.plans++
		}
	}
}
