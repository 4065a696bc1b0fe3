package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/audit"
)

const organizationKey = "svc_key-of-these-tests"

func newKey(t *testing.T, organizationKey string) audit.Key {
	t.Helper()
	key, err := audit.NewKey(organizationKey)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newStore(t *testing.T) (*audit.Store, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := audit.Open(audit.Options{
		Dir: filepath.Join(t.TempDir(), "audit"), Retention: time.Hour, Clock: clock.System{}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Metrics: audit.NewMetrics(registry),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, registry
}

// create creates the log of a new session and returns its path.
func create(t *testing.T, s *audit.Store) (*audit.Log, string) {
	t.Helper()
	start := audit.Start{SessionID: uuid.New(), LaunchID: uuid.New(), ProfileID: uuid.New(), MachineID: "machine"}
	log, err := s.Create(newKey(t, organizationKey), time.Now(), start)
	if err != nil {
		t.Fatal(err)
	}
	return log, filepath.Join(s.Dir, start.SessionID.String()+".jsonl")
}

// end closes a log and returns its lines.
func end(t *testing.T, log *audit.Log, path string) (lines []string) {
	t.Helper()
	log.Close(time.Now(), audit.End{Status: "exited", Reason: "client_close"})
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(raw)))
}

// newLog returns the lines of a complete log.
func newLog(t *testing.T) []string {
	t.Helper()
	s, _ := newStore(t)
	log, path := create(t, s)
	log.Add(time.Now(), audit.Navigation{TargetID: "A", URL: "https://example.com/sign-in"})
	log.Add(time.Now(), audit.Click{TargetID: "A", Role: "button", Name: `Sign "in"`})
	log.Add(time.Now(), audit.Secret{SecretID: uuid.New(), Field: "password", Origin: "https://example.com"})
	log.Add(time.Now(), audit.Download{ID: "B", Name: "invoice.pdf", Origin: "https://example.com", State: "complete", Size: 9})
	return end(t, log, path)
}

func verify(t *testing.T, lines []string) (audit.Report, error) {
	t.Helper()
	return audit.Verify(strings.NewReader(strings.Join(lines, "")), newKey(t, organizationKey))
}

func TestVerify_AcceptsCompleteLog(t *testing.T) {
	lines := newLog(t)
	report, err := verify(t, lines)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Sealed || report.State != audit.Complete || report.Entries != 7 || int(report.Entries) != len(lines) || report.Lost != 0 || report.Last.Before(report.First) {
		t.Errorf("got %+v", report)
	}
	if strings.Contains(strings.Join(lines, ""), organizationKey) {
		t.Error("the log contains the key")
	}
	var out bytes.Buffer
	if err := report.Write(&out); err != nil || !strings.Contains(out.String(), "sealed   complete\n") || !strings.Contains(out.String(), report.Start.SessionID.String()) {
		t.Errorf("got %v %s", err, out.String())
	}
}

// TestVerify_RefusesEveryChangedByte changes each byte of a log.
func TestVerify_RefusesEveryChangedByte(t *testing.T) {
	text := strings.Join(newLog(t), "")
	for i := range text {
		changed := []byte(text)
		changed[i] ^= 1
		if _, err := verify(t, []string{string(changed)}); err == nil {
			t.Fatalf("byte %d of %d can be changed: %q", i, len(text), text[max(0, i-20):min(i+20, len(text))])
		}
	}
}

// TestVerify_RefusesEveryTruncation removes bytes from the end, down to an empty file.
func TestVerify_RefusesEveryTruncation(t *testing.T) {
	text := strings.Join(newLog(t), "")
	for size := range len(text) {
		if _, err := verify(t, []string{text[:size]}); err == nil {
			t.Fatalf("%d of %d bytes are accepted", size, len(text))
		}
	}
}

func TestVerify_NamesWrongLine(t *testing.T) {
	original, other := newLog(t), newLog(t)
	edit := func(change func(lines []string) []string) []string { return change(slices.Clone(original)) }
	for name, tc := range map[string]struct {
		lines []string
		line  int64
		says  string
	}{
		"a removed line":      {edit(func(l []string) []string { return slices.Delete(l, 2, 3) }), 3, "has the number 4"},
		"a repeated line":     {edit(func(l []string) []string { return slices.Insert(l, 2, l[1]) }), 3, "has the number 2"},
		"swapped lines":       {edit(func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }), 2, "has the number 3"},
		"a changed name":      {edit(func(l []string) []string { l[2] = strings.Replace(l[2], "Sign", "Log", 1); return l }), 3, "its hash does not match"},
		"a line of another":   {edit(func(l []string) []string { l[3] = other[3]; return l }), 4, "does not continue"},
		"a missing start":     {original[1:], 1, "has the number 2"},
		"a line after":        {append(slices.Clone(original), original[5]), 8, "follows the seal"},
		"an empty line":       {edit(func(l []string) []string { return slices.Insert(l, 1, "\n") }), 2, "is not an entry"},
		"a text":              {edit(func(l []string) []string { l[1] = "hello\n"; return l }), 2, "is not an entry"},
		"a long line":         {edit(func(l []string) []string { l[1] = strings.Repeat("x", 1<<17) + "\n"; return l }), 2, "is too long"},
		"half of a line":      {append(slices.Clone(original[:4]), original[4][:30]), 5, "is incomplete"},
		"the seal of another": {edit(func(l []string) []string { l[6] = other[6]; return l }), 7, "does not continue"},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := verify(t, tc.lines)
			wrong, ok := errors.AsType[*audit.LineError](err)
			if !ok || wrong.Line != tc.line || !strings.Contains(wrong.Problem, tc.says) {
				t.Errorf("got %v", err)
			}
			if report.Entries != tc.line-1 {
				t.Errorf("%d entries are verified", report.Entries)
			}
		})
	}
}

// TestVerify_RefusesLogWithoutSeal removes whole lines from the end, as a killed worker does.
func TestVerify_RefusesLogWithoutSeal(t *testing.T) {
	lines := newLog(t)
	for count := 1; count < len(lines); count++ {
		if report, err := verify(t, lines[:count]); !errors.Is(err, audit.ErrNotSealed) || int(report.Entries) != count {
			t.Errorf("%d lines: got %v, %d verified", count, err, report.Entries)
		}
	}
	if _, err := verify(t, nil); !errors.Is(err, audit.ErrEmpty) {
		t.Errorf("an empty file: got %v", err)
	}
}

// TestVerify_RefusesRewrittenLog writes a log anew with all hashes, but without the key.
func TestVerify_RefusesRewrittenLog(t *testing.T) {
	s, _ := newStore(t)
	start := audit.Start{SessionID: uuid.New()}
	log, err := s.Create(newKey(t, "svc_another"), time.Now(), start)
	if err != nil {
		t.Fatal(err)
	}
	lines := end(t, log, filepath.Join(s.Dir, start.SessionID.String()+".jsonl"))
	if _, err := verify(t, lines); !errors.Is(err, audit.ErrOtherKey) {
		t.Errorf("with another key: got %v", err)
	}
	// The same with the id of the key, which is no secret.
	rewritten := audit.Rewrite(t, lines, newKey(t, organizationKey))
	_, err = verify(t, rewritten)
	if wrong, ok := errors.AsType[*audit.LineError](err); !ok || wrong.Line != 3 || !strings.Contains(wrong.Problem, "seal that does not match") {
		t.Errorf("got %v", err)
	}
}

func counter(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestLog_CountsLostEntries adds entries faster than the log queues them. Other kinds are not affected.
func TestLog_CountsLostEntries(t *testing.T) {
	s, registry := newStore(t)
	log, path := create(t, s)
	var adding sync.WaitGroup
	for range 8 {
		adding.Go(func() {
			for range 5000 {
				log.Add(time.Now(), audit.Navigation{TargetID: "A", URL: "https://example.com/" + strings.Repeat("x", 1000)})
			}
		})
	}
	adding.Wait()
	log.Add(time.Now(), audit.Secret{Field: "password"})
	report, err := verify(t, end(t, log, path))
	if err != nil {
		t.Fatal(err)
	}
	if report.State != audit.Incomplete || report.Kinds["navigation"]+report.Lost != 40_000 || report.Kinds["secret"] != 1 || report.Kinds["end"] != 1 {
		t.Errorf("got %+v", report)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 9<<20 || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v", info, err)
	}
	if counted := counter(t, registry, "svc_worker_audit_lost_total"); counted != float64(report.Lost) {
		t.Errorf("%v lost entries are counted, want %d", counted, report.Lost)
	}
	t.Logf("%d of 40000 entries are written", report.Kinds["navigation"])
}

// TestLog_KeepsReservedPlaces adds entries whose data becomes known late, or never.
func TestLog_KeepsReservedPlaces(t *testing.T) {
	file := &failingFile{}
	log, closed := audit.NewLogOf(t, file, newKey(t, organizationKey))
	navigate := func(page string) { log.Add(time.Now(), audit.Navigation{URL: "https://example.com/" + page}) }
	navigate("one")
	click, never := log.Reserve(audit.Click{}), log.Reserve(audit.Click{})
	navigate("two")
	file.await(t, "one")
	time.Sleep(20 * time.Millisecond) // for what must not happen
	if strings.Contains(file.text(), "two") {
		t.Error("a later entry is written before a reserved one")
	}
	click(time.Now(), audit.Click{Name: "Save"})
	file.await(t, "Save")
	log.Close(time.Now(), audit.End{})
	never(time.Now(), audit.Click{Name: "late"})
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	report, err := audit.Verify(strings.NewReader(file.text()), newKey(t, organizationKey))
	order := regexp.MustCompile(`(?s)one.*Save.*"entries":1.*two.*seal`)
	if err != nil || report.Lost != 1 || report.State != audit.Incomplete || !order.MatchString(file.text()) {
		t.Errorf("got %+v %v\n%s", report, err, file.text())
	}
}

// TestLog_ContinuesAfterFailedWrites fills the disk for a while, in the middle of a line.
func TestLog_ContinuesAfterFailedWrites(t *testing.T) {
	file := &failingFile{}
	log, closed := audit.NewLogOf(t, file, newKey(t, organizationKey))
	navigate := func(page string) { log.Add(time.Now(), audit.Navigation{URL: "https://example.com/" + page}) }
	navigate("one")
	file.await(t, "one")
	file.setFull(true)
	navigate("two")
	navigate("three")
	file.awaitFailures(t, 2)
	file.setFull(false)
	navigate("four")
	log.Close(time.Now(), audit.End{Status: "killed"})
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	report, err := audit.Verify(strings.NewReader(file.text()), newKey(t, organizationKey))
	if err != nil || report.State != audit.Incomplete || report.Lost != 2 || report.Kinds["navigation"] != 2 {
		t.Errorf("got %+v %v\n%s", report, err, file.text())
	}
}

// TestLog_IsNotSealedOnFullDisk ends a log while nothing can be written.
func TestLog_IsNotSealedOnFullDisk(t *testing.T) {
	file := &failingFile{}
	log, closed := audit.NewLogOf(t, file, newKey(t, organizationKey))
	log.Add(time.Now(), audit.Navigation{URL: "https://example.com/one"})
	file.await(t, "one")
	file.setFull(true)
	log.Close(time.Now(), audit.End{})
	if err := <-closed; !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	report, err := audit.Verify(strings.NewReader(file.text()), newKey(t, organizationKey))
	if !errors.Is(err, audit.ErrNotSealed) || report.Entries != 2 {
		t.Errorf("got %+v %v", report, err)
	}
}

func TestCreate_RefusesExistingLog(t *testing.T) {
	s, _ := newStore(t)
	log, path := create(t, s)
	defer log.Close(time.Now(), audit.End{})
	id := uuid.MustParse(strings.TrimSuffix(filepath.Base(path), ".jsonl"))
	if _, err := s.Create(newKey(t, organizationKey), time.Now(), audit.Start{SessionID: id}); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
}

func TestSweep_RemovesExpiredLogsOnly(t *testing.T) {
	s, _ := newStore(t)
	running, runningPath := create(t, s)
	defer running.Close(time.Now(), audit.End{})
	expired, expiredPath := create(t, s)
	end(t, expired, expiredPath)
	kept, keptPath := create(t, s)
	end(t, kept, keptPath)
	other := filepath.Join(s.Dir, "notes.jsonl")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, path := range []string{runningPath, expiredPath, other} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	s.Sweep()
	for path, want := range map[string]bool{runningPath: true, expiredPath: false, keptPath: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: got %v", filepath.Base(path), err)
		}
	}
}

// TestFollow_ReportsLostEvents interrupts a source while its browser runs, and when its browser ends.
func TestFollow_ReportsLostEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		failure error
		calls   int // of the source until the browser ends
		lost    int64
	}{
		"a lost connection":         {errFull, 2, 1},
		"the end of the browser":    {errFull, 1, 0},
		"lost events":               {cdp.ErrLagged, 2, 2},
		"lost events before an end": {cdp.ErrLagged, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := newStore(t)
			log, path := create(t, s)
			browserEnded, calls := make(chan struct{}), 0
			log.Follow("tabs", browserEnded, func(_ context.Context, ready func()) error {
				ready()
				calls++
				log.Add(time.Now(), audit.Navigation{URL: fmt.Sprintf("https://example.com/%d", calls)})
				if calls == tc.calls {
					close(browserEnded)
				}
				return tc.failure
			})
			<-browserEnded
			report, err := verify(t, end(t, log, path))
			if err != nil || report.Kinds["lost"] != tc.lost || int(report.Kinds["navigation"]) != tc.calls {
				t.Errorf("got %+v %v", report, err)
			}
		})
	}
}

// TestFollow_EndsWithClose closes a log whose source does not end by itself.
func TestFollow_EndsWithClose(t *testing.T) {
	s, _ := newStore(t)
	log, path := create(t, s)
	log.Follow("tabs", make(chan struct{}), func(ctx context.Context, _ func()) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if _, err := verify(t, end(t, log, path)); err != nil {
		t.Error(err)
	}
	log.Add(time.Now(), audit.Navigation{})
	log.Follow("late", nil, func(context.Context, func()) error { panic("an ended log has no sources") })
	log.Close(time.Now(), audit.End{})
}
