package launch

import (
	"slices"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session"
)

// Record says what is recorded of a browser.
type Record struct{ Video, Events, Frames bool }

// Any reports whether anything is recorded.
func (r Record) Any() bool { return r.Video || r.Events || r.Frames }

// NewRecord returns the parts with these names in the API.
func NewRecord(names []string) Record {
	return Record{
		Video: slices.Contains(names, "video"), Events: slices.Contains(names, "events"), Frames: slices.Contains(names, "frames"),
	}
}

// checkRecord refuses recordings that this worker cannot make.
func (s *Service) checkRecord(of Settings, where string) []fault.Detail {
	if !deref(of.Record).Any() {
		return nil
	}
	problem := "must be empty" + where + ": this worker does not keep files (FILES_RETENTION is 0)"
	if s.KeepsFiles {
		if problem = s.CannotRecord(*of.Record); problem == "" {
			return nil
		}
		problem = "must not contain video" + where + ": " + problem
	}
	return []fault.Detail{{Field: "browser.record", Code: fault.Custom, Message: problem}}
}

// recordingOf returns what is recorded of a session; nil if nothing is.
func (s *Service) recordingOf(id uuid.UUID, parts Record) *session.Recording {
	if !parts.Any() || s.RecordingURL == nil {
		return nil
	}
	return &session.Recording{Video: parts.Video, Events: parts.Events, Frames: parts.Frames, URL: s.RecordingURL(id)}
}
