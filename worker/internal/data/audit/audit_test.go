package audit_test

import (
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

// TestLog_LimitsQueue adds entries while none is written. The limit is one of each kind.
func TestLog_LimitsQueue(t *testing.T) {
	s, _ := newStore(t)
	log, path := create(t, s)
	click := log.Reserve(audit.Click{})
	for range 1500 {
		log.Add(time.Now(), audit.Navigation{})
	}
	log.Add(time.Now(), audit.Secret{})
	click(time.Now(), audit.Click{})
	report, err := verify(t, end(t, log, path))
	if err != nil || report.Kinds["navigation"] != 1024 || report.Lost != 476 || report.Kinds["secret"] != 1 || report.Kinds["click"] != 1 {
		t.Errorf("got %+v %v", report, err)
	}
}

// TestLog_LimitsOnlyUnwrittenEntries adds more entries than the queue takes, which are written in between.
func TestLog_LimitsOnlyUnwrittenEntries(t *testing.T) {
	file := &failingFile{}
	log, closed := audit.NewLogOf(t, file, newKey(t, organizationKey))
	for _, page := range []string{"one", "two", "three"} {
		for range 999 {
			log.Add(time.Now(), audit.Navigation{})
		}
		log.Add(time.Now(), audit.Navigation{URL: page})
		file.await(t, page)
	}
	log.Close(time.Now(), audit.End{})
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	report, err := audit.Verify(strings.NewReader(file.text()), newKey(t, organizationKey))
	if err != nil || report.Kinds["navigation"] != 3000 || report.State != audit.Complete {
		t.Errorf("got %+v %v", report, err)
	}
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
