package selftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/fakecloud"
)

// told is what the cloud was told of one session.
type told struct {
	session, profile uuid.UUID
	starts           int
	reasons          []string // of its ends
	ended            time.Time
}

// sessions sorts what the cloud was told, by session, in order.
func sessions(log []fakecloud.Entry) []*told {
	var all []*told
	known := map[uuid.UUID]*told{}
	for _, entry := range log {
		if entry.Operation == fakecloud.Heartbeat {
			continue
		}
		of := known[entry.SessionID]
		if of == nil {
			of = &told{session: entry.SessionID, profile: entry.ProfileID}
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

// audit compares what the cloud was told with what was expected: each session
// started and ended once, and for a reason of its way.
func (b *book) audit(log []fakecloud.Entry) []string {
	byProfile := map[uuid.UUID]*expectation{}
	b.mu.Lock()
	for _, e := range b.expected {
		byProfile[e.profile] = e
	}
	b.mu.Unlock()
	var problems []string
	launches := map[*expectation]int{}
	for _, s := range sessions(log) {
		e := byProfile[s.profile]
		switch {
		case e == nil:
			problems = append(problems, fmt.Sprintf("session %s of profile %s was not asked for", s.session, s.profile))
			continue
		case e.void:
			continue
		}
		launches[e] += min(s.starts, 1)
		problems = append(problems, s.check(e)...)
		if !s.ended.IsZero() && !e.asked.IsZero() && s.ended.After(e.asked) {
			b.took(phaseEndTold, s.ended.Sub(e.asked))
		}
	}
	for _, e := range slices.SortedFunc(maps.Values(byProfile), func(x, y *expectation) int { return strings.Compare(x.way, y.way) }) {
		if !e.void && !e.silent && launches[e] != e.launches {
			problems = append(problems, fmt.Sprintf("%s: %d sessions were told to have started, want %d", e.way, launches[e], e.launches))
		}
	}
	return problems
}

func (s *told) check(e *expectation) []string {
	var problems []string
	if s.starts > 1 {
		problems = append(problems, fmt.Sprintf("%s: the start of session %s was told %d times", e.way, s.session, s.starts))
	}
	switch n := len(s.reasons); {
	case n == 0 && e.silent:
	case n != 1:
		problems = append(problems, fmt.Sprintf("%s: the end of session %s was told %d times", e.way, s.session, n))
	case !slices.Contains(e.reasons, s.reasons[0]):
		problems = append(problems, fmt.Sprintf("%s: session %s was told to have ended for %s, want one of %v", e.way, s.session, s.reasons[0], e.reasons))
	}
	return problems
}
