// Package report tells the cloud what this machine runs: each start, each end,
// and a heartbeat (specification 3.2). Starts and ends that the cloud cannot
// take now wait in a journal on disk and are tried again until it can.
package report

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/session"
)

// ReportStart is a session that runs.
type Start struct {
	SessionID      uuid.UUID  `json:"sessionId"`
	ProfileID      uuid.UUID  `json:"profileId"`
	LaunchID       uuid.UUID  `json:"launchId"`
	SlotID         *uuid.UUID `json:"slotId,omitempty"`
	BrowserVersion int        `json:"browserVersion"`
	Seq            int64      `json:"seq"`
	At             time.Time  `json:"at"`
	BootID         uuid.UUID  `json:"bootId"` // of the worker that started it

	OrganizationKey session.OrganizationKey `json:"-"` // zero for the worker's own
}

// End is a session, or a launch that failed, that is over.
type End struct {
	SessionID uuid.UUID `json:"sessionId"`
	ProfileID uuid.UUID `json:"profileId"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason"`
	At        time.Time `json:"at"`

	OrganizationKey session.OrganizationKey `json:"-"` // zero for the worker's own
}

// Identity is who the worker is to the cloud.
type Identity struct {
	BootID uuid.UUID
	Key    session.OrganizationKey // the worker's own; zero when it has none
}

// Heartbeat is what the cloud made of one.
type Heartbeat struct {
	Applied     bool
	Released    []uuid.UUID
	Unknown     []uuid.UUID
	NextSeconds int
}

// Cloud takes reports. Errors are *fault.Error: PaymentRequired, Conflict,
// NotFound and Validation are final, and so are Unauthenticated and Forbidden,
// which a key that a caller brought meets; everything else is worth another try,
// and wraps ErrNoAnswer when the cloud said nothing at all.
type Cloud interface {
	Identity() Identity
	ReportStart(ctx context.Context, start Start) error
	ReportEnd(ctx context.Context, end End) error
	Heartbeat(ctx context.Context, key session.OrganizationKey, seq int64, sessions []uuid.UUID) (Heartbeat, error)
	// Ping asks whether the cloud is there, without a key.
	Ping(ctx context.Context) error
}

// ErrNoAnswer tells that the cloud did not answer, neither yes nor no.
var ErrNoAnswer = errors.New("report: no answer")

// Live lists what runs, with a number above that of everything listed.
type Live interface {
	Live() (sessions []session.Session, seq int64)
}

// Reporter tells the cloud what happens. It implements launch.Reports.
type Reporter struct {
	cloud              Cloud
	identity           Identity
	live               Live
	logger             *slog.Logger
	journal            *journalFiles
	own                *heartbeatSender // of heartbeats with the worker's own key
	callers            *heartbeatSender // and with those of its callers
	delivering         chan struct{}    // holds one while waiting reports are told
	heartbeatRequested chan struct{}    // asks for a heartbeat with the worker's own key

	mu     sync.Mutex
	latest int64 // number of a heartbeat
}

// New returns a Reporter with its journal in dir. What an earlier boot could not
// deliver of sessions that have ended is taken up again.
func New(cloud Cloud, live Live, dir string, logger *slog.Logger) (*Reporter, error) {
	journal, err := openJournal(dir, logger)
	if err != nil {
		return nil, err
	}
	r := &Reporter{cloud: cloud, identity: cloud.Identity(), live: live, logger: logger, journal: journal, delivering: make(chan struct{}, 1), heartbeatRequested: make(chan struct{}, 1)}
	r.own, r.callers = newHeartbeatSender(r, true), newHeartbeatSender(r, false)
	return r, nil
}

// Started implements launch.Reports.
func (r *Reporter) Started(ctx context.Context, s session.Session) error {
	start := r.startOf(s)
	err := r.cloud.ReportStart(ctx, start)
	if err != nil && !isFinal(err) && !fault.Is(err, fault.OwnKeyRefused) {
		r.logger.WarnContext(ctx, "the start will be reported later", "sessionId", s.ID, "error", err)
		r.put(entry{Start: &start, EndIfRefused: true})
		return nil
	}
	if err == nil {
		r.sender(s.OrganizationKey).starts.add(s.ID)
	}
	return err
}

// Ended implements launch.Reports.
func (r *Reporter) Ended(ended launch.Ended) {
	r.put(entry{End: &End{
		SessionID: ended.SessionID, ProfileID: ended.ProfileID,
		Status: string(ended.Status), Reason: string(ended.Reason), At: ended.At, OrganizationKey: r.callerKey(ended.OrganizationKey),
	}})
}

// RequestHeartbeat has the next heartbeat with the worker's own key sent at once: another
// call met a cloud that no longer answers as it did. It does not block.
func (r *Reporter) RequestHeartbeat() {
	select {
	case r.heartbeatRequested <- struct{}{}:
	default:
	}
}

func (r *Reporter) put(e entry) {
	switch err := r.journal.put(e); {
	case errors.Is(err, errFull):
		r.logger.Error("a report is dropped", "sessionId", e.session(), "error", err)
	case err != nil:
		r.logger.Error("a report is kept in memory alone", "sessionId", e.session(), "error", err)
	}
}

func (r *Reporter) startOf(s session.Session) Start {
	return Start{
		SessionID: s.ID, ProfileID: s.ProfileID, LaunchID: s.LaunchID, SlotID: s.SlotID,
		BrowserVersion: s.BrowserVersion, Seq: s.Seq, At: s.StartedAt, BootID: r.identity.BootID, OrganizationKey: r.callerKey(s.OrganizationKey),
	}
}

// callerEntries is a caller's key, or zero for the worker's own, also where a caller
// brought that.
func (r *Reporter) callerKey(key session.OrganizationKey) session.OrganizationKey {
	if key.Equal(r.identity.Key) {
		return session.OrganizationKey{}
	}
	return key
}

// isFinal reports whether the cloud has judged the report itself, or the key that
// a caller brought for it. Everything else may pass: an outage, and also a
// refusal of the worker's own key, which the operator replaces.
func isFinal(err error) bool {
	return fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) ||
		fault.Is(err, fault.PaymentRequired) || fault.Is(err, fault.Conflict) ||
		fault.Is(err, fault.NotFound) || fault.Is(err, fault.Validation)
}
