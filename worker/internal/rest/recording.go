package rest

import (
	"slices"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/recording"
	"github.com/browser-svc/svc/worker/internal/session"
)

// record converts what a launch records.
func record(parts *[]workerapi.RecordingPart) launch.Record {
	of := valueOr(parts, nil)
	return launch.Record{Video: slices.Contains(of, workerapi.Video), Events: slices.Contains(of, workerapi.Events)}
}

// recordingOf returns the recording of a session; nil without one.
func (s *Server) recordingOf(of session.Session) *workerapi.Recording {
	if s.Recording == nil {
		return nil
	}
	info, ok := s.Recording(of.ID)
	if !ok {
		return nil
	}
	data := &workerapi.Recording{
		Video: info.Video, Events: info.Events, State: workerapi.RecordingState(info.State), Bytes: info.Bytes, DroppedFrames: info.DroppedFrames,
	}
	if info.State == recording.Incomplete {
		data.Reason = new(workerapi.RecordingReason(info.Reason))
	}
	return data
}
