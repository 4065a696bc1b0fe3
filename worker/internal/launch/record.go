package launch

import (
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Record says what is recorded of a browser.
type Record struct{ Video, Events bool }

// Any reports whether anything is recorded.
func (r Record) Any() bool { return r.Video || r.Events }

// checkRecord refuses recordings that this worker cannot make.
func (s *Service) checkRecord(request Request) []fault.Detail {
	if !request.Record.Any() {
		return nil
	}
	problem := "must be empty: this worker does not keep files (FILES_RETENTION is 0)"
	if s.KeepsFiles {
		if problem = s.CannotRecord(request.Record); problem == "" {
			return nil
		}
	}
	return []fault.Detail{{Field: "browser.record", Code: fault.Custom, Message: problem}}
}

// recordingOf returns what is recorded of a session; nil if nothing is.
func (s *Service) recordingOf(id uuid.UUID, parts Record) *session.Recording {
	if !parts.Any() || s.RecordingURL == nil {
		return nil
	}
	return &session.Recording{Video: parts.Video, Events: parts.Events, URL: s.RecordingURL(id)}
}
