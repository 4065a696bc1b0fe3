package selftest

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/worker/internal/testing/fakecloud"
)

func TestAudit_FindsWrongReports(t *testing.T) {
	profile, session := uuid.New(), uuid.New()
	entryOf := func(operation fakecloud.Operation, reason string) fakecloud.Entry {
		call := fakecloud.Call{Operation: operation, ProfileID: profile, SessionID: session}
		if operation == fakecloud.End {
			call.End = &cloudapi.EndSessionRequest{EndReason: new(sharedapi.EndReason(reason))}
		}
		return fakecloud.Entry{At: time.Now(), Call: call}
	}
	authorize, start, end := entryOf(fakecloud.Authorize, ""), entryOf(fakecloud.Start, ""), entryOf(fakecloud.End, "killed")
	for _, tc := range []struct {
		name string
		log  []fakecloud.Entry
		want string // in the one problem; empty for none
	}{
		{"correct reports", []fakecloud.Entry{authorize, start, end}, ""},
		{"ended twice", []fakecloud.Entry{authorize, start, end, end}, "end of session"},
		{"never ended", []fakecloud.Entry{authorize, start}, "reported 0 times"},
		{"started twice", []fakecloud.Entry{authorize, start, start, end}, "start of session"},
		{"never started", []fakecloud.Entry{authorize, end}, "0 sessions reported as started, want 1"},
		{"for another reason", []fakecloud.Entry{authorize, start, entryOf(fakecloud.End, "crash")}, "ended for crash, want one of [killed]"},
	} {
		b := newSessionLog()
		b.expect(&expectation{scenario: "scenario", profile: profile, launches: 1, reasons: []string{"killed"}})
		got := b.audit(tc.log)
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	b := newSessionLog()
	if got := b.audit([]fakecloud.Entry{authorize}); len(got) != 1 || !strings.Contains(got[0], "unexpected session") {
		t.Errorf("an unexpected session: got %q", got)
	}
	b.expect(&expectation{profile: profile, launches: 1, ignored: true})
	if got := b.audit([]fakecloud.Entry{authorize}); len(got) != 0 {
		t.Errorf("a failed scenario: got %q", got)
	}
}

func TestScheduler_SchedulesEachScenarioOncePerRound(t *testing.T) {
	deal := func(seed uint64) (names []string, dice []uint64) {
		d := newScenarioScheduler(Options{Seed: seed, Rounds: 2})
		for {
			w, own, ok := d.next(true)
			if !ok {
				return names, dice
			}
			names, dice = append(names, w.name), append(dice, own.Uint64())
		}
	}
	names, dice := deal(7)
	all := scenarios()
	if len(names) != 2*len(all) {
		t.Fatalf("got %d scenarios, want %d", len(names), 2*len(all))
	}
	seen := map[string]int{}
	for _, name := range names[:len(all)] {
		seen[name]++
	}
	if len(seen) != len(all) {
		t.Errorf("the first round has %v", seen)
	}
	again, diceAgain := deal(7)
	if diff := cmp.Diff(names, again) + cmp.Diff(dice, diceAgain); diff != "" {
		t.Errorf("the same seed gave another order:\n%s", diff)
	}
	if other, _ := deal(8); cmp.Equal(names, other) {
		t.Error("another seed gave the same order")
	}
}

func TestScheduler_ListsSkippedScenarios(t *testing.T) {
	d := newScenarioScheduler(Options{Seed: 1, Scenarios: []string{"end by DELETE", "display killed", "socket closed"}})
	_, _, _ = d.next(false)
	if got := d.skipped(false); len(got) != 2 {
		t.Errorf("skipped %v, want the display scenario and the scenario that was not scheduled", got)
	}
	_, _, _ = d.next(false)
	if diff := cmp.Diff([]string{"display killed"}, d.skipped(false)); diff != "" {
		t.Error(diff)
	}
	if none := newScenarioScheduler(Options{Scenarios: []string{"display killed"}}); len(none.skipped(true)) != 1 {
		t.Error("a scenario that was never scheduled is not listed as skipped")
	}
}

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, tc := range []struct {
		of      []time.Duration
		percent int
		want    time.Duration
	}{{hundred, 50, 50}, {hundred, 95, 95}, {hundred[:1], 95, 1}, {hundred[:2], 50, 1}, {hundred[:3], 50, 2}, {nil, 50, 0}} {
		if got := quantile(tc.of, tc.percent); got != tc.want {
			t.Errorf("p%d of %d is %d, want %d", tc.percent, len(tc.of), got, tc.want)
		}
	}
}

func TestNewDescriptors_ListsGrowth(t *testing.T) {
	before := idleState{descriptors: []string{"a", "b"}}
	if got := (idleState{descriptors: []string{"b", "c"}}).newDescriptors(before); got != nil {
		t.Errorf("got %v without growth", got)
	}
	if diff := cmp.Diff([]string{"c", "d"}, idleState{descriptors: []string{"a", "b", "c", "d"}}.newDescriptors(before)); diff != "" {
		t.Error(diff)
	}
}

func TestMonitor_FindsMountsAndCgroups(t *testing.T) {
	if m := (&machineMonitor{dir: "/proc"}); len(m.leftoverMounts()) == 0 {
		t.Error("/proc is not listed as a mount")
	}
	group := t.TempDir()
	m := &machineMonitor{dir: group, cgroups: map[string]bool{group: true, group + "/gone": true}}
	if diff := cmp.Diff([]string{group}, m.leftoverCgroups()); diff != "" {
		t.Error(diff)
	}
	if mounts := m.leftoverMounts(); len(mounts) > 0 {
		t.Errorf("mounts %v", mounts)
	}
}

func TestCutProxy_CutsAfterBytes(t *testing.T) {
	got := make(chan int, 1)
	server := startCountingServer(t, got)
	l, err := openCutProxy("http://" + server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(l.rewriteURL("http://"+server), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l.cutAfter(fromClient, 10_000)
	for range 100 {
		if _, err := conn.Write(make([]byte, 1000)); err != nil {
			break
		}
	}
	if n := <-got; n != 10_000 {
		t.Errorf("got %d bytes through, want 10000", n)
	}
}

// startCountingServer starts a server that sends the number of bytes read from each connection.
func startCountingServer(t *testing.T, got chan<- int) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		n, _ := io.Copy(io.Discard, conn)
		got <- int(n)
	}()
	return listener.Addr().String()
}
