package launch

import (
	"context"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/data/audit"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/activity"
	"github.com/browser-svc/svc/worker/internal/session/launch/admission"
)

// running is a browser with the state that its end needs.
type running struct {
	browser        *browser.Browser
	session        session.Session
	activity       *activity.Meter
	lifetime       *Lifetime
	oomKillsBefore uint64 // the machine's count of OOM kills before the start
	resources      resources
	actions        *audit.Log // nil: no activity log
	dataUse        DataUse
	timeline       *timeline
	place          *admission.Place // released at the end

	done        chan struct{}          // closed when the session is finalized
	endRequests chan session.EndReason // for watch; the first reason counts
	reason      session.EndReason      // why the worker ended the browser, if it did; used by watch only

	ending        context.Context // ends when the session certainly ends soon
	markEnding    context.CancelFunc
	clientLeaving atomic.Pointer[func() bool] // of BindClient; nil: the session does not end with a client
}

func newRunning(a *attempt, profileID uuid.UUID) *running {
	r := &running{
		oomKillsBefore: a.host().oomKills, timeline: a.timeline, place: a.place,
		done: make(chan struct{}), endRequests: make(chan session.EndReason, 1),
		dataUse: DataUse{ProfileID: profileID, SessionID: a.id, OrganizationKey: a.OrganizationKey, ReadOnly: a.ReadOnly},
	}
	r.ending, r.markEnding = context.WithCancel(context.Background())
	return r
}

// requestEnd asks watch to end the browser.
func (r *running) requestEnd(reason session.EndReason) {
	r.markEnding()
	select {
	case r.endRequests <- reason:
	default:
	}
}

// endState returns how a stopped browser ended. oomKills is the machine's current
// count of OOM kills.
func (r *running) endState(now time.Time, oomKills uint64) session.End {
	exit := r.browser.Exit()
	end := session.End{At: now, Status: session.Exited, Traffic: r.resources.traffic(), Network: r.resources.egress.Network(endedHosts), SaveResult: r.saveResult()}
	if exit.Unresponsive {
		end.Status, end.Reason = session.Killed, session.Unresponsive
		return end
	}
	if r.reason != "" && exit.Killed {
		end.Status, end.Reason = session.Killed, r.reason
		return end
	}
	code := exit.Code
	if exit.Signal != 0 {
		code = -int(exit.Signal)
	}
	end.ExitCode = &code
	switch {
	case exit.DisplayLost:
		end.Reason = session.Crash
	case code == 0:
		end.Reason = session.ClientClose
	case exit.OutOfMemory, exit.Signal == syscall.SIGKILL && !exit.Killed && oomKills > r.oomKillsBefore:
		end.Reason = session.OutOfMemory
	default:
		end.Reason = session.Crash
	}
	return end
}

// Running is a running browser, for its routes.
type Running struct {
	Session  session.Session
	Browser  *browser.Browser
	Activity *activity.Meter // the routes report client activity to it
	Frozen   bool            // the browser is unused, and frozen
	Lifetime *Lifetime

	Handovers *handover.Handovers
	Actions   *audit.Log // the activity log; nil: none
}

// Running returns the running browser of a launch.
func (s *Service) Running(launchID uuid.UUID) (Running, bool) {
	found, ok := s.Sessions.ByLaunch(launchID)
	if !ok || found.Status != session.Running {
		return Running{}, false
	}
	run, ok := s.lookup(found.ID)
	if !ok {
		return Running{}, false
	}
	return Running{
		Session: found, Browser: run.browser, Activity: run.activity, Lifetime: run.lifetime, Frozen: run.browser.Frozen(), Handovers: run.browser.Calls().Handovers(),
		Actions: run.actions,
	}, true
}

// Browser returns the running browser of a launch.
func (s *Service) Browser(launchID uuid.UUID) (*browser.Browser, bool) {
	found, ok := s.Running(launchID)
	return found.Browser, ok
}

// lookup returns the running browser of a session.
func (s *Service) lookup(id uuid.UUID) (*running, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, ok := s.live[id]
	return run, ok
}

// Frozen returns the number of running sessions whose browser is frozen.
func (s *Service) Frozen() (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.live {
		if run.browser.Frozen() {
			count++
		}
	}
	return count
}

// Traffic returns the bytes that passed a session's proxy so far, also after its end
// while the session is listed. It returns false without a proxy.
func (s *Service) Traffic(sessionID uuid.UUID) (received, sent int64, ok bool) {
	var counted *session.Traffic
	if run, runs := s.lookup(sessionID); runs {
		counted = run.resources.traffic()
	} else if found, listed := s.Sessions.Get(sessionID); listed {
		counted = found.Traffic
	}
	if counted == nil {
		return 0, 0, false
	}
	return counted.Received, counted.Sent, true
}

// Hosts of Network.
const (
	liveHosts  = 2000 // more than an egress lists
	endedHosts = 100
)

// Network returns what a session has transferred, also after its end while the session is
// listed. Then it has at most endedHosts. Errors: NotFound.
func (s *Service) Network(sessionID uuid.UUID) (session.Network, error) {
	if run, runs := s.lookup(sessionID); runs {
		return run.resources.egress.Network(liveHosts), nil
	}
	found, listed := s.Sessions.Get(sessionID)
	if !listed {
		return session.Network{}, fault.Missing("session")
	}
	return found.Network, nil
}
