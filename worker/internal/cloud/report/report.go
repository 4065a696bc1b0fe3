// Package report reports to the cloud what runs on this machine: the start and
// end of each session, saved versions of profile data, and heartbeats (specification
// 3.2). Reports that cannot be delivered are kept in a journal on disk and retried.
package report

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Start reports a running session.
type Start struct {
	SessionID      uuid.UUID  `json:"sessionId"`
	ProfileID      uuid.UUID  `json:"profileId"`
	LaunchID       uuid.UUID  `json:"launchId"`
	SlotID         *uuid.UUID `json:"slotId,omitempty"`
	BrowserVersion int        `json:"browserVersion"`
	Seq            int64      `json:"seq"`
	At             time.Time  `json:"at"`
	BootID         uuid.UUID  `json:"bootId"` // of the worker that started it

	Recording *session.Recording `json:"recording,omitempty"`
	Name      string             `json:"name,omitempty"`
	Metadata  map[string]string  `json:"metadata,omitempty"`

	// Events happened since the last report, in their order.
	Events []session.Event `json:"events,omitempty"`

	// Change means that the start has been reported before, with another name, other metadata or other events.
	Change bool `json:"change,omitempty"`

	OrganizationKey session.OrganizationKey `json:"-"` // zero for the worker's own
}

// End reports the end of a session or of a failed launch.
type End struct {
	SessionID uuid.UUID `json:"sessionId"`
	ProfileID uuid.UUID `json:"profileId"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason"`
	At        time.Time `json:"at"`

	Network *session.Network `json:"network,omitempty"` // nil if it is not known
	Events  []session.Event  `json:"events,omitempty"`  // happened since the last report, in their order

	OrganizationKey session.OrganizationKey `json:"-"` // zero for the worker's own
}

// Identity identifies the worker to the cloud.
type Identity struct {
	BootID uuid.UUID
	Key    session.OrganizationKey // the worker's own; zero when it has none
}

// Heartbeat is the cloud's answer to a heartbeat.
type Heartbeat struct {
	Applied     bool
	Released    []uuid.UUID
	Unknown     []uuid.UUID
	NextSeconds int
}

// Cloud receives reports. Errors are *fault.Error. PaymentRequired, Conflict,
// NotFound and Validation are final, and so are Unauthenticated and Forbidden
// for a caller's key. All other errors are retried. They wrap ErrNoAnswer if
// the cloud did not answer.
type Cloud interface {
	Identity() Identity
	ReportStart(ctx context.Context, start Start) error
	ReportCommit(ctx context.Context, commit Commit) error
	ReportEnd(ctx context.Context, end End) error
	Heartbeat(ctx context.Context, key session.OrganizationKey, seq int64, sessions []uuid.UUID) (Heartbeat, error)
	// Ping checks, without a key, that the cloud is reachable.
	Ping(ctx context.Context) error
}

// ErrNoAnswer means that the cloud did not answer.
var ErrNoAnswer = errors.New("report: no answer")

// Live lists the running sessions with a sequence number greater than that of
// each session.
type Live interface {
	Live() (sessions []session.Session, seq int64)
}

// Reporter reports to the cloud. It implements launch.Reports.
type Reporter struct {
	cloud              Cloud
	identity           Identity
	live               Live
	logger             *slog.Logger
	journal            *journal
	own                *heartbeatSender // of heartbeats with the worker's own key
	callers            *heartbeatSender // and with those of its callers
	delivering         chan struct{}    // semaphore: held while reports are delivered
	heartbeatRequested chan struct{}    // requests a heartbeat with the worker's own key

	mu     sync.Mutex
	latest int64 // number of a heartbeat
	// refusedStarts holds running sessions whose start the cloud finally refused.
	refusedStarts map[uuid.UUID]bool
}

// New returns a Reporter with its journal in dir. It loads the undelivered
// reports of sessions that ended during an earlier boot.
func New(cloud Cloud, live Live, dir string, logger *slog.Logger) (*Reporter, error) {
	journal, err := openJournal(dir, logger)
	if err != nil {
		return nil, err
	}
	r := &Reporter{cloud: cloud, identity: cloud.Identity(), live: live, logger: logger, journal: journal, delivering: make(chan struct{}, 1), heartbeatRequested: make(chan struct{}, 1), refusedStarts: map[uuid.UUID]bool{}}
	r.own, r.callers = newHeartbeatSender(r, true), newHeartbeatSender(r, false)
	return r, nil
}

// Started implements launch.Reports.
func (r *Reporter) Started(ctx context.Context, s session.Session) error {
	start := r.startOf(s)
	err := r.cloud.ReportStart(ctx, start)
	if err != nil && !isFinal(err) && !fault.Is(err, fault.OwnKeyRefused) {
		r.logger.WarnContext(ctx, "failed to report a start, retrying later", "sessionId", s.ID, "error", err)
		r.put(entry{Start: &start})
		return nil
	}
	if err == nil {
		r.sender(s.OrganizationKey).starts.add(s.ID)
	}
	return err
}

// Changed implements launch.Reports: it reports the start again, with a higher sequence number.
func (r *Reporter) Changed(s session.Session) {
	start := r.startOf(s)
	start.Change = true
	r.put(entry{Start: &start})
}

// Happened implements launch.Reports. The report of a running session is not written to
// disk, because the browser does not outlive the worker.
func (r *Reporter) Happened(s session.Session, e session.Event) {
	if s.Status != session.Running {
		r.put(entry{End: &End{
			SessionID: s.ID, ProfileID: s.ProfileID, Status: string(s.Status), Reason: string(s.EndReason), At: s.EndedAt, Network: &s.Network,
			OrganizationKey: r.callerKey(s.OrganizationKey), Events: []session.Event{e},
		}})
		return
	}
	start := r.startOf(s)
	start.Change, start.Events = true, []session.Event{e}
	if err := r.journal.add(entry{Start: &start}); err != nil {
		r.logger.Error("event dropped", "sessionId", s.ID, "type", e.Type, "error", err)
	}
}

// Ended implements launch.Reports.
func (r *Reporter) Ended(ended launch.Ended) {
	r.put(entry{End: &End{
		SessionID: ended.SessionID, ProfileID: ended.ProfileID,
		Status: string(ended.Status), Reason: string(ended.Reason), At: ended.At, Network: ended.Network, OrganizationKey: r.callerKey(ended.OrganizationKey),
	}})
}

// RequestHeartbeat sends the next heartbeat with the worker's own key at once.
// It is called when another call fails, and does not block.
func (r *Reporter) RequestHeartbeat() {
	select {
	case r.heartbeatRequested <- struct{}{}:
	default:
	}
}

func (r *Reporter) put(e entry) {
	switch err := r.journal.put(e); {
	case errors.Is(err, errFull):
		r.logger.Error("report dropped", "sessionId", e.session(), "error", err)
	case err != nil:
		r.logger.Error("failed to write a report to disk, keeping it in memory", "sessionId", e.session(), "error", err)
	}
}

func (r *Reporter) startOf(s session.Session) Start {
	if s.Recording != nil && s.Recording.Failure != "" { // there is nothing to play
		s.Recording = nil
	}
	return Start{
		SessionID: s.ID, ProfileID: s.ProfileID, LaunchID: s.LaunchID, SlotID: s.SlotID,
		BrowserVersion: s.BrowserVersion, Seq: s.Seq, At: s.StartedAt, BootID: r.identity.BootID, OrganizationKey: r.callerKey(s.OrganizationKey),
		Recording: s.Recording, Name: s.Name, Metadata: s.Metadata,
	}
}

// callerKey returns a caller's key, or the zero key if it equals the worker's
// own.
func (r *Reporter) callerKey(key session.OrganizationKey) session.OrganizationKey {
	if key.Equal(r.identity.Key) {
		return session.OrganizationKey{}
	}
	return key
}

// isFinal reports whether the cloud refused the report itself or the caller's
// key. All other errors may be temporary: outages, and a refusal of the
// worker's own key, which the operator replaces.
func isFinal(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) ||
		fault.Is(err, fault.PaymentRequired) || fault.Is(err, fault.Conflict) ||
		fault.Is(err, fault.NotFound) || fault.Is(err, fault.Validation)
}
