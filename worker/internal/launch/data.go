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

// Data keeps the browser data of profiles between launches.
type Data interface {
	// Acquire gives a launch exclusive use of a profile's data. Errors: Conflict if
	// the data is in use on this machine.
	Acquire(ctx context.Context, profileID uuid.UUID) (SavedData, error)
}

// SavedData is the data of one profile. The launch owns it until Release.
type SavedData interface {
	browser.Data
	Release()
}

// saveResult reports whether the browser data was saved. It is nil if the profile
// keeps no data.
func (r *running) saveResult() *session.SaveResult {
	if r.resources.data == nil {
		return nil
	}
	err := r.browser.SaveError()
	return &session.SaveResult{Saved: err == nil, Reason: notSavedReason(err)}
}

// notSavedReason returns why data was not saved.
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
