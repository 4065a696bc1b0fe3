package launch

import (
	"context"
	"errors"
	"syscall"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/profiledata"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Data keeps the browser data of profiles from launch to launch.
type Data interface {
	// Acquire gives a profile's data to one launch. Errors: Conflict while someone
	// else on this machine has it.
	Acquire(ctx context.Context, profileID uuid.UUID) (SavedData, error)
}

// SavedData is a profile's data, which one launch has until it releases it.
type SavedData interface {
	browser.Data
	Release()
}

// saveResult is what became of a browser's data after its end; nil where none is
// kept.
func (r *running) saveResult() *session.SaveResult {
	if r.resources.data == nil {
		return nil
	}
	err := r.browser.SaveError()
	return &session.SaveResult{Saved: err == nil, Reason: notSavedReason(err)}
}

// notSavedReason says why data were not saved.
func notSavedReason(err error) session.DataNotSavedReason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, browser.ErrUncleanExit):
		return session.DataUncleanEnd
	case errors.Is(err, profiledata.ErrTooLarge):
		return session.DataTooLarge
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return session.DataDiskFull
	case errors.Is(err, context.DeadlineExceeded):
		return session.DataTimeout
	default:
		return session.DataError
	}
}
