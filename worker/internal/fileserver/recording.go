package fileserver

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/recording"
)

// Recordings finds the recordings of sessions. The content ends with ctx.
type Recordings interface {
	Open(ctx context.Context, session uuid.UUID, name string) (recording.Content, error)
	OpenFrames(ctx context.Context, session uuid.UUID) (*recording.Frames, error)
}

// video answers with the video of a session.
func (s *Service) video(c echo.Context) error {
	return s.serveRecording(c, recording.VideoName, "video/webm")
}

// events answers with the events of a session, always with all of them.
func (s *Service) events(c echo.Context) error {
	for _, name := range []string{"Range", "If-Range"} {
		c.Request().Header.Del(name)
	}
	return s.serveRecording(c, recording.EventsName, "application/x-ndjson")
}

// frames answers with an archive of the frames of a session. Nothing of it is stored.
func (s *Service) frames(c echo.Context) error {
	id, err := uuid.Parse(c.Param("sessionId"))
	if err != nil {
		return fault.Missing("recording")
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	frames, err := s.recordings.OpenFrames(ctx, id)
	if err != nil {
		return recordingFault(err)
	}
	defer func() { _ = frames.Close() }()
	w := httpd.NewContentWriter(c.Response(), cancel)
	defer w.Stop()
	setRecordingHeaders(c.Response().Header(), "application/zip")
	c.Response().Header().Set("Content-Disposition", disposition("frames.zip"))
	c.Response().WriteHeader(http.StatusOK)
	if err := frames.WriteZip(w); err != nil {
		panic(http.ErrAbortHandler) // only this shows the client that the archive is incomplete
	}
	return nil
}

// serveRecording answers with a file of a recording.
func (s *Service) serveRecording(c echo.Context, name, kind string) error {
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	content, err := s.openRecording(ctx, c, name)
	if err != nil {
		return err
	}
	defer content.Close()
	return serveUntil(ctx, cancel, c, content, content.Size(), func(header http.Header) { setRecordingHeaders(header, kind) })
}

// setRecordingHeaders sets the headers of a part of a recording, which a page can only play
// or read.
func setRecordingHeaders(header http.Header, kind string) {
	header.Set("Content-Type", kind)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	header.Set("Cache-Control", "private, no-store")
}

func (s *Service) openRecording(ctx context.Context, c echo.Context, name string) (recording.Content, error) {
	id, err := uuid.Parse(c.Param("sessionId"))
	if err != nil {
		return nil, fault.Missing("recording")
	}
	content, err := s.recordings.Open(ctx, id, name)
	if err != nil {
		return nil, recordingFault(err)
	}
	return content, nil
}

// recordingFault converts an error of package recording.
func recordingFault(err error) error {
	switch {
	case errors.Is(err, recording.ErrRunning):
		return fault.New(fault.Conflict, "The session is still being recorded. End it and retry after a few seconds.")
	case errors.Is(err, recording.ErrMissing):
		return fault.New(fault.NotFound, "This part of the session was not recorded. See recording of the session and browser.record.")
	case errors.Is(err, recording.ErrNone):
		return fault.New(fault.NotFound, "No such recording. Sessions are recorded if they were launched with browser.record, and recordings are removed after FILES_RETENTION, or RECORDINGS_RETENTION in RECORDINGS_URL.")
	case errors.Is(err, recording.ErrStore):
		return fault.Wrap(err, fault.Unavailable, "The store of recordings (RECORDINGS_URL) does not answer. Try again.")
	}
	return err
}
