package rest

import (
	"context"
	"slices"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
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

// CreateRecordingTicket returns a URL that opens the player of a recording once.
func (s *Server) CreateRecordingTicket(
	_ context.Context, request workerapi.CreateRecordingTicketRequestObject,
) (workerapi.CreateRecordingTicketResponseObject, error) {
	if s.Recording == nil {
		return nil, fault.Missing("recording")
	}
	if _, ok := s.Recording(request.SessionId); !ok {
		return nil, fault.Missing("recording")
	}
	address, expires, err := s.Recordings.Link(request.SessionId.String())
	if err != nil {
		return nil, err
	}
	return workerapi.CreateRecordingTicket200JSONResponse{
		Success: true, Data: workerapi.RecordingTicket{Url: address, ExpiresAt: expires.UTC()},
	}, nil
}
