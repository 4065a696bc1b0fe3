package launch

import (
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/weborigin"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/data/audit"
	"github.com/browser-svc/svc/worker/internal/data/files"
	"github.com/browser-svc/svc/worker/internal/session"
)

// openActionLog creates the activity log of a session before any client can use its
// browser. After an error the browser has ended.
func (s *Service) openActionLog(run *running, opened session.Session) (err error) {
	if s.ActionLog == nil {
		return nil
	}
	if run.actions, err = s.ActionLog(opened); err != nil {
		s.stopBrowser(run)
		run.resources.release()
		return fault.Wrap(err, fault.Internal, "The activity log of the session could not be created, so the launch was refused.")
	}
	if downloads := run.browser.Files(); downloads != nil {
		downloads.Observe(func(f files.File) {
			run.actions.Add(s.Clock.Now(), audit.Download{ID: f.ID, Name: f.Name, Origin: f.Origin, State: string(f.State), Size: f.Size, SHA256: f.SHA256})
		})
	}
	return nil
}

// logHandover logs the start of a handover; logOutcome its end. They log neither its reason
// nor its note, which a person has typed.
func (s *Service) logHandover(run *running, h handover.Handover) {
	run.actions.Add(h.Since, audit.Handover{Until: h.Until.UTC()})
}

func (s *Service) logOutcome(run *running, r handover.Result) {
	run.actions.Add(s.Clock.Now(), audit.Handover{Outcome: string(r.Outcome), Seconds: r.Seconds()})
}

func (s *Service) logDecision(run *running, q *handover.Question, d handover.Decision) {
	run.actions.Add(s.Clock.Now(), audit.Question{Rule: q.Rule, Origin: weborigin.Of(q.URL), Decision: string(d)})
}
