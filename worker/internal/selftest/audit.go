package selftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/testing/fakecloud"
)

// reportedSession is what the worker reported about one session.
type reportedSession struct {
	session, profile uuid.UUID
	starts           int
	reasons          []string // of its ends
	ended            time.Time
}

// groupBySession groups the cloud's log by session, in order.
func groupBySession(log []fakecloud.Entry) []*reportedSession {
	var all []*reportedSession
	known := map[uuid.UUID]*reportedSession{}
	for _, entry := range log {
		if entry.Operation == fakecloud.Heartbeat {
			continue
		}
		of := known[entry.SessionID]
		if of == nil {
			of = &reportedSession{session: entry.SessionID, profile: entry.ProfileID}
			known[entry.SessionID], all = of, append(all, of)
		}
		switch entry.Operation {
		case fakecloud.Start:
			of.starts++
		case fakecloud.End:
			of.ended = entry.At
			of.reasons = append(of.reasons, string(value(entry.End.EndReason)))
		}
	}
	return all
}

// audit compares the worker's reports with the expectations: each session must
// start and end once, with an allowed reason.
func (b *sessionLog) audit(log []fakecloud.Entry) []string {
	byProfile := map[uuid.UUID]*expectation{}
	b.mu.Lock()
	for _, e := range b.expected {
		byProfile[e.profile] = e
	}
	b.mu.Unlock()
	var problems []string
	launches := map[*expectation]int{}
	for _, s := range groupBySession(log) {
		e := byProfile[s.profile]
		switch {
		case e == nil:
			problems = append(problems, fmt.Sprintf("unexpected session %s of profile %s", s.session, s.profile))
			continue
		case e.ignored:
			continue
		}
		launches[e] += min(s.starts, 1)
		problems = append(problems, s.check(e)...)
		if !s.ended.IsZero() && !e.endRequestedAt.IsZero() && s.ended.After(e.endRequestedAt) {
			b.recordDuration(phaseEndReported, s.ended.Sub(e.endRequestedAt))
		}
	}
	for _, e := range slices.SortedFunc(maps.Values(byProfile), func(x, y *expectation) int { return strings.Compare(x.scenario, y.scenario) }) {
		if !e.ignored && !e.endOptional && launches[e] != e.launches {
			problems = append(problems, fmt.Sprintf("%s: %d sessions reported as started, want %d", e.scenario, launches[e], e.launches))
		}
	}
	return problems
}

func (s *reportedSession) check(e *expectation) []string {
	var problems []string
	if s.starts > 1 {
		problems = append(problems, fmt.Sprintf("%s: start of session %s reported %d times", e.scenario, s.session, s.starts))
	}
	switch n := len(s.reasons); {
	case n == 0 && e.endOptional:
	case n != 1:
		problems = append(problems, fmt.Sprintf("%s: end of session %s reported %d times", e.scenario, s.session, n))
	case !slices.Contains(e.reasons, s.reasons[0]):
		problems = append(problems, fmt.Sprintf("%s: session %s ended for %s, want one of %v", e.scenario, s.session, s.reasons[0], e.reasons))
	}
	return problems
}
