package report

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
)

// Commit reports a version of a profile's data that a session has saved completely.
type Commit struct {
	ID        uuid.UUID  `json:"id"` // of the version
	SessionID uuid.UUID  `json:"sessionId"`
	ProfileID uuid.UUID  `json:"profileId"`
	Previous  *uuid.UUID `json:"previous,omitempty"` // the version that the session restored; nil for none
	Content   int64      `json:"content"`            // size of the files
	Sent      int64      `json:"sent"`               // size of the objects that were added
	Keep      int        `json:"keep"`               // how many versions to keep
	At        time.Time  `json:"at"`

	OrganizationKey session.OrganizationKey `json:"-"` // zero for the worker's own
	// Settled is called once: with nil when the cloud has acknowledged the version, or
	// with its refusal. It is lost if the worker stops before.
	Settled func(error) `json:"-"`
}

// commitWait is how long Commit waits for the acknowledgment.
const commitWait = 10 * time.Second

// MaxCommitAge is the age after which a commit is given up. Later, the store may have
// deleted the version.
const MaxCommitAge = 28 * 24 * time.Hour

// ErrPending means that the cloud has not acknowledged a report yet. It is repeated.
var ErrPending = errors.New("the cloud has not acknowledged the report yet; it is repeated")

var errCommitExpired = errors.New("the cloud was not reachable for too long")

// Commit writes a commit to the journal and delivers it. The heartbeats list the session
// until the cloud has the commit, so that the lease of the data lasts. Errors:
// ErrPending if the cloud does not answer in time: the commit is repeated; the
// refusal of the cloud.
func (r *Reporter) Commit(ctx context.Context, c Commit) error {
	ctx, cancel := context.WithTimeout(ctx, commitWait)
	defer cancel()
	c.OrganizationKey = r.callerKey(c.OrganizationKey)
	settled, next := make(chan error, 1), c.Settled
	c.Settled = func(err error) {
		next(err)
		settled <- err
	}
	switch err := r.journal.put(entry{Commit: &c}); {
	case errors.Is(err, errFull):
		return err
	case err != nil:
		r.logger.ErrorContext(ctx, "failed to write a report to disk, keeping it in memory", "sessionId", c.SessionID, "error", err)
	}
	r.deliverEntries(ctx, func() []entry { // at once, although the delivery of others may pause
		if e, ok := r.journal.get(c.SessionID); ok {
			return []entry{e}
		}
		return nil
	})
	select {
	case err := <-settled:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrPending, context.Cause(ctx))
	}
}

func (r *Reporter) deliverCommit(ctx context.Context, c Commit) bool {
	err := errCommitExpired
	if time.Since(c.At) < MaxCommitAge {
		err = r.cloud.ReportCommit(ctx, c)
		if err != nil && !isFinal(err) {
			r.logger.DebugContext(ctx, "failed to deliver a commit", "sessionId", c.SessionID, "error", err)
			r.journal.moveToBack(c.SessionID)
			return false
		}
	}
	attrs := []any{"sessionId", c.SessionID, "profileId", c.ProfileID, "version", c.ID}
	if err != nil {
		r.logger.ErrorContext(ctx, "saved version of profile data dropped: the previous version stays", append(attrs, "error", err)...)
		r.setAside("commit", entry{Commit: &c}, err)
	} else if late := time.Since(c.At); late > commitWait {
		r.logger.InfoContext(ctx, "the cloud has acknowledged a pending version of profile data", append(attrs, "after", late)...)
	}
	r.markDelivered(entry{Commit: &c})
	if c.Settled != nil {
		c.Settled(err)
	}
	return true
}

// committing returns the sessions with a pending commit.
func (j *journal) committing() (ids []uuid.UUID) {
	for _, e := range j.pending() {
		if e.Commit != nil {
			ids = append(ids, e.Commit.SessionID)
		}
	}
	return ids
}
