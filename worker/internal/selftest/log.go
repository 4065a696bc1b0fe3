package selftest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// log keeps what was done, how long it took and what went wrong. It is safe
// for concurrent use.
type sessionLog struct {
	mu         sync.Mutex
	phaseNames []string // of the phases, as they first came
	phases     map[string][]time.Duration
	done       map[string]int
	failures   []string
	expected   []*expectation
}

func newSessionLog() *sessionLog {
	return &sessionLog{phases: map[string][]time.Duration{}, done: map[string]int{}}
}

// expectation is what the cloud is to be told of the sessions of a profile.
type expectation struct {
	scenario       string
	profile        uuid.UUID
	launches       int       // how many sessions start
	reasons        []string  // of their ends; any of them
	endOptional    bool      // the end may be untold
	ignored        bool      // something went wrong: anything may be told
	endRequestedAt time.Time // when the last end was asked for; zero where it was not
}

// expect notes an expectation before anything can come of it.
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

// recordDuration notes how long a phase took.
func (b *sessionLog) recordDuration(phase string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.phases[phase]; !known {
		b.phaseNames = append(b.phaseNames, phase)
	}
	b.phases[phase] = append(b.phases[phase], d)
}

// count counts something that was done.
func (b *sessionLog) count(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[what]++
}

// addFailure notes what went wrong.
func (b *sessionLog) addFailure(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, fmt.Sprintf(format, args...))
}

// counts are how much was done so far, and how much of it went wrong.
func (b *sessionLog) counts() (done, failures int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.done {
		done += n
	}
	return done, len(b.failures)
}

// phaseSummary is the phases in the order in which they come in a session's life.
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

// quantile is the value that so many percent do not exceed (nearest rank).
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
	phaseAuthorize     = "cloud asked and answered"
	phaseConfigured    = "warm browser claimed"
	phaseStarted       = "browser started"
	phaseAnswered      = "browser answered on its pipe"
	phaseReady         = "settings made"
	phaseReported      = "start reported"
	phaseLaunched      = "launch answered"
	phaseFirstWarm     = "first CDP answer, warm"
	phaseFirstCold     = "first CDP answer, cold"
	phaseLoaded        = "page loaded"
	phasePicture       = "first picture of the view"
	phaseRefused       = "refusal answered"
	phaseEnded         = "session ended"
	phaseEndReported   = "end told to the cloud"
	phaseCleaned       = "nothing left of it"
	phaseSurvivors     = "gone after kill -9 of the worker"
	phaseReboot        = "worker ready again"
	phaseSlotsReleased = "its slots given back"
	phaseDrained       = "worker ended by SIGTERM"
	phaseFirstStart    = "worker ready"
)

var phaseOrder = []string{
	phaseFirstStart, phaseAuthorize, phaseConfigured, phaseStarted, phaseAnswered, phaseReady, phaseReported, phaseLaunched,
	phaseFirstWarm, phaseFirstCold, phaseLoaded, phasePicture, phaseRefused, phaseEnded, phaseEndReported, phaseCleaned,
	phaseSurvivors, phaseReboot, phaseSlotsReleased, phaseDrained,
}
