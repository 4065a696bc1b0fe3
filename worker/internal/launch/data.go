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
	// Claim gives a profile's data to one launch. Errors: Conflict while someone
	// else on this machine has it.
	Claim(ctx context.Context, profileID uuid.UUID) (Kept, error)
}

// Kept is a profile's data, which one launch has until it releases it.
type Kept interface {
	browser.Data
	Release()
}

// savedData is what became of a browser's data after its end; nil where none is
// kept.
func (r *running) savedData() *session.SavedData {
	if r.held.data == nil {
		return nil
	}
	err := r.browser.SaveError()
	return &session.SavedData{Saved: err == nil, Reason: notSaved(err)}
}

// notSaved says why data were not saved.
func notSaved(err error) session.DataNotSavedReason {
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
