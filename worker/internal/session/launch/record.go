package launch

import (
	"context"
	"slices"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// recordField is the field of a launch with what is recorded.
const recordField = "browser.record"

// Record says what is recorded of a browser.
type Record struct{ Video, Events, Frames, HAR, Trace bool }

// Any reports whether anything is recorded.
func (r Record) Any() bool { return r.Video || r.Events || r.Frames || r.HAR || r.Trace }

// NewRecord returns the parts with these names in the API.
func NewRecord(names []string) Record {
	return Record{
		Video: slices.Contains(names, "video"), Events: slices.Contains(names, "events"), Frames: slices.Contains(names, "frames"),
		HAR: slices.Contains(names, "har"), Trace: slices.Contains(names, "trace"),
	}
}

// Names returns the names of the parts in the API.
func (r Record) Names() (names []string) {
	for _, part := range []struct {
		recorded bool
		name     string
	}{{r.Video, "video"}, {r.Events, "events"}, {r.Frames, "frames"}, {r.HAR, "har"}, {r.Trace, "trace"}} {
		if part.recorded {
			names = append(names, part.name)
		}
	}
	return names
}

// CheckRecord returns an error that names the field if this worker cannot record something.
func (s *Service) CheckRecord(parts Record, field string) error {
	if details := s.checkRecord(parts, field, ""); len(details) > 0 {
		return fault.Invalid(details...)
	}
	return nil
}

// checkRecord refuses recordings that this worker cannot make. where says where else the field can be.
func (s *Service) checkRecord(parts Record, field, where string) []fault.Detail {
	if !parts.Any() {
		return nil
	}
	problem := "must be empty" + where + ": this worker does not keep files (FILES_RETENTION is 0)"
	if s.KeepsFiles {
		if problem = s.CannotRecord(parts); problem == "" {
			return nil
		}
		problem = "must not contain video" + where + ": " + problem
	}
	return []fault.Detail{{Field: field, Code: fault.Custom, Message: problem}}
}

// startRecording starts what is recorded of a session. The session says whether that has failed.
func (s *Service) startRecording(run *running, request Request, parts Record) {
	failure := ""
	if s.Launched != nil {
		failure = s.Launched(run.session.LaunchID, request, parts)
	}
	if !parts.Any() || s.RecordingURLs == nil {
		return
	}
	recording := &session.Recording{Video: parts.Video, Events: parts.Events, Frames: parts.Frames, HAR: parts.HAR, Trace: parts.Trace, Failure: failure}
	if failure == "" {
		player, viewer := s.RecordingURLs(run.session.ID)
		recording.URL = player
		if parts.Trace {
			recording.Viewer = viewer
		}
	}
	run.session.Recording = recording
	s.Sessions.SetRecording(run.session.ID, recording)
}

// postponeStartURLs returns the start URLs of a browser whose requests are recorded: they are opened when the recording
// has started. The browser begins with a blank tab for each.
func postponeStartURLs(spec *browser.Spec, parts Record) (urls []string) {
	if parts.HAR && len(spec.StartURLs) > 0 {
		urls, spec.StartURLs = spec.StartURLs, slices.Repeat([]string{"about:blank"}, len(spec.StartURLs))
	}
	return urls
}

func (s *Service) openStartURLs(ctx context.Context, run *running, urls []string) {
	if len(urls) == 0 {
		return
	}
	if err := run.browser.OpenStartURLs(ctx, urls); err != nil {
		s.Logger.ErrorContext(ctx, "failed to open the start URLs", "sessionId", run.session.ID, "error", err)
	}
}
