package fileserver

import (
	"errors"
	"net/http"
	"os"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/recording"
)

// Recordings finds the recordings of sessions.
type Recordings interface {
	Open(session uuid.UUID, name string) (*os.File, error)
}

// video answers with the video of a session.
func (s *Service) video(c echo.Context) error {
	f, err := s.openRecording(c, recording.VideoName)
	if err != nil {
		return err
	}
	defer f.Close()
	return serve(c, f, func(header http.Header) { setRecordingHeaders(header, "video/webm") })
}

// events answers with the events of a session, always with all of them.
func (s *Service) events(c echo.Context) error {
	f, err := s.openRecording(c, recording.EventsName)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, name := range []string{"Range", "If-Range"} {
		c.Request().Header.Del(name)
	}
	return serve(c, f, func(header http.Header) { setRecordingHeaders(header, "application/x-ndjson") })
}

// setRecordingHeaders sets the headers of a part of a recording, which a page can only play
// or read.
func setRecordingHeaders(header http.Header, kind string) {
	header.Set("Content-Type", kind)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	header.Set("Cache-Control", "private, no-store")
}

func (s *Service) openRecording(c echo.Context, name string) (*os.File, error) {
	id, err := uuid.Parse(c.Param("sessionId"))
	if err != nil {
		return nil, fault.Missing("recording")
	}
	f, err := s.recordings.Open(id, name)
	switch {
	case errors.Is(err, recording.ErrRunning):
		return nil, fault.New(fault.Conflict, "The session is still being recorded. End it and retry after a few seconds.")
	case errors.Is(err, recording.ErrMissing):
		return nil, fault.New(fault.NotFound, "This part of the session was not recorded. See recording of the session and browser.record.")
	case errors.Is(err, recording.ErrNone):
		return nil, fault.New(fault.NotFound, "No such recording. Sessions are recorded if they were launched with browser.record, and recordings are removed after FILES_RETENTION.")
	}
	return f, err
}
