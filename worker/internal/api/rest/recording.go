package rest

import (
	"context"
	"errors"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/session"
)

// RecordingOf returns the recording of a session; nil without one.
func (s *Server) RecordingOf(session session.Session) *workerapi.Recording {
	if s.Recording == nil {
		return nil
	}
	info, ok := s.Recording.Info(session.ID)
	if failed := session.Recording; !ok && failed != nil && failed.Failure != "" {
		info, ok = recording.Info{
			Video: failed.Video, Events: failed.Events, Frames: failed.Frames, HAR: failed.HAR, Trace: failed.Trace, State: recording.Failed, Reason: recording.Reason(failed.Failure),
		}, true
	}
	if !ok {
		return nil
	}
	data := &workerapi.Recording{
		Video: info.Video, Events: info.Events, Frames: info.Frames, Har: info.HAR, Trace: info.Trace, Stored: info.Stored, State: workerapi.RecordingState(info.State), Bytes: info.Bytes, DroppedFrames: info.DroppedFrames,
	}
	if info.Reason != "" {
		data.Reason = new(workerapi.RecordingReason(info.Reason))
	}
	if info.State != recording.Failed {
		data.Url = new(s.Recordings.Player(session.ID.String()))
		if info.Trace {
			data.ViewerUrl = new(s.Recordings.Viewer(session.ID.String()))
		}
	}
	return data
}

// CreateRecordingTicket returns URLs with a ticket that opens a page of a recording once.
func (s *Server) CreateRecordingTicket(
	ctx context.Context, request workerapi.CreateRecordingTicketRequestObject,
) (workerapi.CreateRecordingTicketResponseObject, error) {
	if s.Recording == nil {
		return nil, fault.Missing("recording")
	}
	info, err := s.Recording.Find(ctx, request.SessionId)
	switch {
	case errors.Is(err, recording.ErrNone):
		return nil, fault.Missing("recording")
	case err != nil:
		return nil, fault.Wrap(err, fault.Unavailable, "The store of recordings (OBJECT_STORE_URL) does not answer. Try again.")
	}
	id := request.SessionId.String()
	query, expires, err := s.Recordings.Ticket(id)
	if err != nil {
		return nil, err
	}
	data := workerapi.RecordingTicket{Url: s.Recordings.Player(id) + query, ExpiresAt: expires.UTC()}
	if info.Trace {
		data.ViewerUrl = new(s.Recordings.Viewer(id) + query)
	}
	return workerapi.CreateRecordingTicket200JSONResponse{Success: true, Data: data}, nil
}
