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
	"github.com/browser-svc/svc/worker/internal/fakecloud"
)

func TestTheBooksNoticeWhatIsToldWrongly(t *testing.T) {
	profile, session := uuid.New(), uuid.New()
	tell := func(operation fakecloud.Operation, reason string) fakecloud.Entry {
		call := fakecloud.Call{Operation: operation, ProfileID: profile, SessionID: session}
		if operation == fakecloud.End {
			call.End = &cloudapi.EndSessionRequest{EndReason: new(sharedapi.EndReason(reason))}
		}
		return fakecloud.Entry{At: time.Now(), Call: call}
	}
	authorize, start, end := tell(fakecloud.Authorize, ""), tell(fakecloud.Start, ""), tell(fakecloud.End, "killed")
	for _, tc := range []struct {
		name string
		log  []fakecloud.Entry
		want string // in the one problem; empty for none
	}{
		{"as it should be", []fakecloud.Entry{authorize, start, end}, ""},
		{"ended twice", []fakecloud.Entry{authorize, start, end, end}, "the end of session"},
		{"never ended", []fakecloud.Entry{authorize, start}, "told 0 times"},
		{"started twice", []fakecloud.Entry{authorize, start, start, end}, "the start of session"},
		{"never started", []fakecloud.Entry{authorize, end}, "0 sessions were told to have started, want 1"},
		{"for another reason", []fakecloud.Entry{authorize, start, tell(fakecloud.End, "crash")}, "ended for crash, want one of [killed]"},
	} {
		b := newBook()
		b.expect(&expectation{way: "way", profile: profile, launches: 1, reasons: []string{"killed"}})
		got := b.audit(tc.log)
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	b := newBook()
	if got := b.audit([]fakecloud.Entry{authorize}); len(got) != 1 || !strings.Contains(got[0], "was not asked for") {
		t.Errorf("nobody's session: %q", got)
	}
	b.expect(&expectation{profile: profile, launches: 1, void: true})
	if got := b.audit([]fakecloud.Entry{authorize}); len(got) != 0 {
		t.Errorf("of a way that failed: %q", got)
	}
}

func TestTheDeckDealsEveryWayOnceARoundInTheOrderOfItsSeed(t *testing.T) {
	deal := func(seed uint64) (names []string, dice []uint64) {
		d := newDeck(Options{Seed: seed, Rounds: 2})
		for {
			w, own, ok := d.next(true)
			if !ok {
				return names, dice
			}
			names, dice = append(names, w.name), append(dice, own.Uint64())
		}
	}
	names, dice := deal(7)
	all := ways()
	if len(names) != 2*len(all) {
		t.Fatalf("dealt %d, want %d", len(names), 2*len(all))
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
		t.Errorf("the same seed deals otherwise:\n%s", diff)
	}
	if other, _ := deal(8); cmp.Equal(names, other) {
		t.Error("another seed deals the same")
	}
}

func TestWaysThatWereNotGoneAreNamed(t *testing.T) {
	d := newDeck(Options{Seed: 1, Ways: []string{"end by DELETE", "display killed", "socket closed"}})
	_, _, _ = d.next(false)
	if got := d.missed(false); len(got) != 2 {
		t.Errorf("missed %v, want the display and the one that was not dealt", got)
	}
	_, _, _ = d.next(false)
	if diff := cmp.Diff([]string{"display killed"}, d.missed(false)); diff != "" {
		t.Error(diff)
	}
	if none := newDeck(Options{Ways: []string{"display killed"}}); len(none.missed(true)) != 1 {
		t.Error("what was never dealt is not missed")
	}
}

func TestQuantiles(t *testing.T) {
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

func TestMoreDescriptorsAreListed(t *testing.T) {
	before := idle{descriptors: []string{"a", "b"}}
	if got := (idle{descriptors: []string{"b", "c"}}).grown(before); got != nil {
		t.Errorf("%v, though there are no more", got)
	}
	if diff := cmp.Diff([]string{"c", "d"}, idle{descriptors: []string{"a", "b", "c", "d"}}.grown(before)); diff != "" {
		t.Error(diff)
	}
}

func TestMountsAndControlGroupsThatAreLeftAreFound(t *testing.T) {
	if m := (&machine{dir: "/proc"}); len(m.mounts()) == 0 {
		t.Error("/proc is no mount")
	}
	group := t.TempDir()
	m := &machine{dir: group, cgroups: map[string]bool{group: true, group + "/gone": true}}
	if diff := cmp.Diff([]string{group}, m.groups()); diff != "" {
		t.Error(diff)
	}
	if mounts := m.mounts(); len(mounts) > 0 {
		t.Errorf("mounts %v", mounts)
	}
}

func TestAConnectionIsCutInTheMiddleOfWhatIsSent(t *testing.T) {
	got := make(chan int, 1)
	server := echoless(t, got)
	l, err := openLine("http://" + server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(l.through("http://"+server), "http://"))
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
		t.Errorf("%d bytes got through, want 10000", n)
	}
}

// echoless is a server that tells how much of a connection it has read.
func echoless(t *testing.T, got chan<- int) (address string) {
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
