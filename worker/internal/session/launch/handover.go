package launch

import (
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/session"
)

// observeHandovers measures and logs the handovers of a browser, and logs its questions to
// persons, also in the activity log. While one is open, the session is not idle and its browser is not frozen.
func (s *Service) observeHandovers(run *running, opened session.Session) {
	run.browser.Calls().Handovers().Observe(func(current handover.Handover) (ended func(handover.Result)) {
		s.Metrics.openHandovers.Inc()
		s.Logger.Info("handover started", "sessionId", opened.ID, "launchId", opened.LaunchID, "until", current.Until)
		s.logHandover(run, current)
		s.Happened(opened.ID, opened.OrganizationKey, session.Event{Type: session.HandoverRequested, Reason: current.Reason, Until: current.Until})
		work, release := run.activity.Begin(), run.browser.Hold()
		return func(r handover.Result) {
			s.logOutcome(run, r)
			s.Happened(opened.ID, opened.OrganizationKey, session.Event{Type: session.HandoverDone, Outcome: string(r.Outcome), Seconds: new(r.Seconds())})
			release()
			work()
			s.Metrics.openHandovers.Dec()
			s.Metrics.handovers.WithLabelValues(string(r.Outcome)).Inc()
			s.Logger.Info("handover ended", "sessionId", opened.ID, "launchId", opened.LaunchID, "outcome", r.Outcome,
				"duration", r.Duration.Round(time.Millisecond))
		}
	})
	run.browser.Calls().Handovers().ObserveQuestions(func(q *handover.Question) (ended func(handover.Decision)) {
		s.Logger.Info("document waits for a person", "sessionId", opened.ID, "launchId", opened.LaunchID, "rule", q.Rule, "until", q.Until)
		work, release := run.activity.Begin(), run.browser.Hold()
		return func(d handover.Decision) {
			s.logDecision(run, q, d)
			release()
			work()
			s.Logger.Info("document waits no longer", "sessionId", opened.ID, "launchId", opened.LaunchID, "rule", q.Rule, "decision", d)
		}
	})
}
