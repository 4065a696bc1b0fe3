package fileserver

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/media/script"
)

// Recordings finds the recordings of sessions. The content ends with ctx.
type Recordings interface {
	Open(ctx context.Context, session uuid.UUID, name string) (recording.Content, error)
	OpenFrames(ctx context.Context, session uuid.UUID) (*recording.Frames, error)
	OpenHAR(ctx context.Context, session uuid.UUID) (*recording.Archive, error)
	OpenTrace(ctx context.Context, session uuid.UUID) (*recording.Trace, error)
	Script(ctx context.Context, session uuid.UUID, l script.Language) (string, error)
	// OpenMP4 waits for a conversion until wait ends.
	OpenMP4(ctx, wait context.Context, session uuid.UUID) (recording.Content, error)
}

const (
	webm = "video/webm"
	mp4  = "video/mp4"

	conversionWait  = 25 * time.Second // shorter than the timeouts of usual load balancers
	conversionRetry = 10 * time.Second
)

// video answers with the video of a session, as WebM or MP4.
func (s *Service) video(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	if format := c.QueryParam("format"); format == "webm" || format == "" && !prefersMP4(c.Request().Header.Values(echo.HeaderAccept)) {
		return s.serveRecording(c, webm, s.open(recording.VideoName))
	}
	return s.serveRecording(c, mp4, func(ctx context.Context, session uuid.UUID) (recording.Content, error) {
		wait, stop := context.WithTimeout(s.ctx, conversionWait)
		defer stop()
		return s.recordings.OpenMP4(ctx, wait, session)
	})
}

// prefersMP4 reports whether a client with these Accept headers prefers MP4 to WebM.
func prefersMP4(accept []string) bool {
	quality := map[string]float64{}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality[kind] = 1
		if q, err := strconv.ParseFloat(parameters["q"], 64); err == nil {
			quality[kind] = q
		}
	}
	rank := func(kind string) float64 {
		for _, pattern := range []string{kind, "video/*", "*/*"} {
			if q, ok := quality[pattern]; ok {
				return q
			}
		}
		return 0
	}
	return rank(mp4) > rank(webm)
}

// open returns a function that opens a file of a recording.
func (s *Service) open(name string) openRecording {
	return func(ctx context.Context, session uuid.UUID) (recording.Content, error) {
		return s.recordings.Open(ctx, session, name)
	}
}

// events answers with the events of a session, always with all of them.
func (s *Service) events(c echo.Context) error {
	for _, name := range []string{"Range", "If-Range"} {
		c.Request().Header.Del(name)
	}
	return s.serveRecording(c, "application/x-ndjson", s.open(recording.EventsName))
}

// frames answers with an archive of the frames of a session.
func (s *Service) frames(c echo.Context) error {
	return stream(c, "application/zip", "frames.zip", s.recordings.OpenFrames, (*recording.Frames).WriteZip)
}

// har answers with the requests of a session, also while it is recorded.
func (s *Service) har(c echo.Context) error {
	creator := har.Browser{Name: "svc-worker", Version: program.Version}
	return stream(c, echo.MIMEApplicationJSON, "session.har", s.recordings.OpenHAR, func(a *recording.Archive, w io.Writer) error { return a.Write(w, creator) })
}

// trace answers with the trace of a session, for a trace viewer.
func (s *Service) trace(c echo.Context) error {
	return stream(c, "application/zip", "trace.zip", s.recordings.OpenTrace, (*recording.Trace).WriteZip)
}

// script answers with a script that does again what was done in a session.
func (s *Service) script(c echo.Context) error {
	id, err := uuid.Parse(c.Param("sessionId"))
	if err != nil {
		return fault.Missing("recording")
	}
	language := script.Language(c.QueryParam("language"))
	text, err := s.recordings.Script(c.Request().Context(), id, language)
	if errors.Is(err, recording.ErrMissing) {
		return fault.New(fault.NotFound, "This session has no script: it was not recorded with trace. See recording of the session and browser.record.")
	}
	if err != nil {
		return recordingFault(err)
	}
	setRecordingHeaders(c.Response().Header(), echo.MIMETextPlainCharsetUTF8)
	c.Response().Header().Set("Content-Disposition", disposition(language.FileName()))
	return c.String(http.StatusOK, text)
}

// stream answers with what is generated from a recording.
func stream[T io.Closer](c echo.Context, kind, name string, open func(context.Context, uuid.UUID) (T, error), write func(T, io.Writer) error) error {
	id, err := uuid.Parse(c.Param("sessionId"))
	if err != nil {
		return fault.Missing("recording")
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	content, err := open(ctx, id)
	if err != nil {
		return recordingFault(err)
	}
	defer func() { _ = content.Close() }()
	w := httpd.NewContentWriter(c.Response(), cancel)
	defer w.Stop()
	setRecordingHeaders(c.Response().Header(), kind)
	c.Response().Header().Set("Content-Disposition", disposition(name))
	c.Response().WriteHeader(http.StatusOK)
	if err := write(content, w); err != nil {
		panic(http.ErrAbortHandler) // only this shows the client that the content is incomplete
	}
	return nil
}

type openRecording func(ctx context.Context, session uuid.UUID) (recording.Content, error)

// serveRecording answers with a file of a recording.
func (s *Service) serveRecording(c echo.Context, kind string, open openRecording) error {
	id, err := uuid.Parse(c.Param("sessionId"))
	if err != nil {
		return fault.Missing("recording")
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	content, err := open(ctx, id)
	if err != nil {
		return recordingFault(err)
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

// recordingFault converts an error of package recording.
func recordingFault(err error) error {
	switch {
	case errors.Is(err, recording.ErrRunning):
		return fault.New(fault.Conflict, "The session is still being recorded. End it and retry after a few seconds.")
	case errors.Is(err, recording.ErrMissing):
		return fault.New(fault.NotFound, "This part of the session was not recorded. See recording of the session and browser.record.")
	case errors.Is(err, recording.ErrNone):
		return fault.New(fault.NotFound, "No such recording. Sessions are recorded if they were launched with browser.record, and recordings are removed after FILES_RETENTION.")
	case errors.Is(err, recording.ErrExists):
		return fault.New(fault.Conflict, "This session is being recorded, or was recorded before. A session has one recording. A running one is stopped with DELETE /browsers/{launchId}/recording.")
	case errors.Is(err, recording.ErrConverting):
		f := fault.Wrap(err, fault.Unavailable, "The video is being converted to MP4. Try again.")
		f.RetryAfter = conversionRetry
		return f
	case errors.Is(err, recording.ErrNoFFmpeg):
		return fault.Wrap(err, fault.Conflict, "This worker cannot convert the video to MP4: it has no ffmpeg in its PATH. Request WebM.")
	case errors.Is(err, recording.ErrConversion):
		return fault.Wrap(err, fault.Internal, "The video could not be converted to MP4; see the log of the worker. Request WebM.")
	case errors.Is(err, recording.ErrStore):
		return fault.Wrap(err, fault.Unavailable, "The store of recordings (OBJECT_STORE_URL) does not answer. Try again.")
	}
	return err
}
