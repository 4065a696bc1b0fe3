package launch

import (
	"context"
	"errors"
	"syscall"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Data keeps the browser data of profiles between launches.
type Data interface {
	// Acquire gives a launch the use of a profile's data, exclusive unless it only
	// reads. Errors: Conflict if the data is in use, and those of the cloud.
	Acquire(ctx context.Context, use DataUse) (SavedData, error)
}

// DataUse is how a launch uses the data of its profile.
type DataUse struct {
	ProfileID       uuid.UUID
	SessionID       uuid.UUID
	OrganizationKey session.OrganizationKey // zero is the worker's own
	ReadOnly        bool                    // Save does nothing
}

// SavedData is the data of one profile. The launch owns it until Release.
type SavedData interface {
	browser.Data
	Release()
}

// saveResult reports whether the browser data was saved. It is nil if the profile
// keeps no data or the launch only reads it.
func (r *running) saveResult() *session.SaveResult {
	if r.resources.data == nil || r.dataUse.ReadOnly {
		return nil
	}
	return new(SaveResult(r.browser.SaveError()))
}

// SaveResult returns the result of a save with this error.
func SaveResult(err error) session.SaveResult {
	return session.SaveResult{Saved: err == nil, Reason: notSavedReason(err)}
}

// notSavedReason returns why data was not saved.
func notSavedReason(err error) session.DataNotSavedReason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, profiledata.ErrPending):
		return session.DataPending
	case errors.Is(err, browser.ErrUncleanExit):
		return session.DataUncleanEnd
	case errors.Is(err, profiledata.ErrTooLarge):
		return session.DataTooLarge
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return session.DataDiskFull
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errSaveCanceled):
		return session.DataTimeout
	default:
		return session.DataError
	}
}
