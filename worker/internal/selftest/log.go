package selftest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// sessionLog records actions, durations, failures and expectations. It is safe
// for concurrent use.
type sessionLog struct {
	mu         sync.Mutex
	phaseNames []string // phases in the order of their first occurrence
	phases     map[string][]time.Duration
	done       map[string]int
	failures   []string
	expected   []*expectation
}

func newSessionLog() *sessionLog {
	return &sessionLog{phases: map[string][]time.Duration{}, done: map[string]int{}}
}

// expectation describes what the worker must report to the cloud about a
// profile's sessions.
type expectation struct {
	scenario       string
	profile        uuid.UUID
	launches       int       // number of sessions
	reasons        []string  // allowed end reasons
	endOptional    bool      // the end may be unreported
	ignored        bool      // the scenario failed: reports are not checked
	endRequestedAt time.Time // when the last end was requested; zero if it was not
}

// expect adds an expectation.
func (b *sessionLog) expect(e *expectation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, e)
}

// update changes an expectation.
func (b *sessionLog) update(e *expectation, change func(*expectation)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(e)
}

// recordDuration records the duration of a phase.
func (b *sessionLog) recordDuration(phase string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.phases[phase]; !known {
		b.phaseNames = append(b.phaseNames, phase)
	}
	b.phases[phase] = append(b.phases[phase], d)
}

// count counts an action.
func (b *sessionLog) count(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[what]++
}

// addFailure records a failure.
func (b *sessionLog) addFailure(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, fmt.Sprintf(format, args...))
}

// counts returns the number of actions and of failures so far.
func (b *sessionLog) counts() (done, failures int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.done {
		done += n
	}
	return done, len(b.failures)
}

// phaseSummary returns the phases in the order of a session's life.
func (b *sessionLog) phaseSummary() []Phase {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := slices.Clone(b.phaseNames)
	slices.SortStableFunc(names, func(x, y string) int { return phaseRank(x) - phaseRank(y) })
	var found []Phase
	for _, name := range names {
		took := slices.Sorted(slices.Values(b.phases[name]))
		found = append(found, Phase{Name: name, Count: len(took), P50: milliseconds(quantile(took, 50)), P95: milliseconds(quantile(took, 95))})
	}
	return found
}

func phaseRank(phase string) int {
	if i := slices.Index(phaseOrder, phase); i >= 0 {
		return i
	}
	return len(phaseOrder)
}

// quantile returns the value that this percentage of values does not exceed
// (nearest rank).
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (percent*len(sorted)+99)/100-1)]
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond).Microseconds()) / 1000
}

// The phases, in the order of a session's life. The worker's own are those of
// its timeline, each since the step before.
const (
	phaseAuthorize     = "cloud authorization"
	phaseConfigured    = "warm browser configured"
	phaseStarted       = "browser started"
	phaseAnswered      = "browser answered on its pipe"
	phaseReady         = "settings applied"
	phaseReported      = "start reported"
	phaseLaunched      = "launch answered"
	phaseFirstWarm     = "first CDP answer, warm"
	phaseFirstCold     = "first CDP answer, cold"
	phaseLoaded        = "page loaded"
	phasePicture       = "first image of the live view"
	phaseRefused       = "refusal answered"
	phaseEnded         = "session ended"
	phaseEndReported   = "end reported to the cloud"
	phaseCleaned       = "resources released"
	phaseSurvivors     = "processes ended after kill -9 of the worker"
	phaseReboot        = "worker ready again"
	phaseSlotsReleased = "slots released"
	phaseDrained       = "worker stopped by SIGTERM"
	phaseFirstStart    = "worker ready"
)

var phaseOrder = []string{
	phaseFirstStart, phaseAuthorize, phaseConfigured, phaseStarted, phaseAnswered, phaseReady, phaseReported, phaseLaunched,
	phaseFirstWarm, phaseFirstCold, phaseLoaded, phasePicture, phaseRefused, phaseEnded, phaseEndReported, phaseCleaned,
	phaseSurvivors, phaseReboot, phaseSlotsReleased, phaseDrained,
}
