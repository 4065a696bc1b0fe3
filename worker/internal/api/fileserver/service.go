// Package fileserver serves the files of launches: below /browsers/{launchId} while the
// browser runs, and below /sessions/{sessionId} also after its end if they are kept.
//
// Content is untrusted. It is an attachment of an unspecified type, which no web browser
// renders.
package fileserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// Store finds the files of sessions.
type Store interface {
	BySession(id uuid.UUID) (*files.Launch, bool)
}

// Service serves files.
type Service struct {
	store      Store
	recordings Recordings
	recorder   Recorder
	viewer     TraceViewer
	address    access.Address
	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
}

// New returns a Service. Call Close to end its transfers.
func New(store Store, recordings Recordings, recorder Recorder, viewer TraceViewer, address access.Address) *Service {
	s := &Service{store: store, recordings: recordings, recorder: recorder, viewer: viewer, address: address}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends the transfers of files that are still downloaded. It may be called again.
func (s *Service) Close() { s.cancel() }

// handler answers a request for files.
type handler func(c echo.Context, launch *files.Launch) error

// Routes returns the routes for package access.
func (s *Service) Routes() []access.Route {
	return []access.Route{
		{Path: "/files", Handle: ofBrowser(s.list)},
		{Path: "/files/:file", Handle: ofBrowser(s.content)},
		{Path: "/files/:file", Method: http.MethodPut, Handle: s.upload},
		{Path: "/files/:file", Method: http.MethodDelete, Handle: ofBrowser(s.remove)},
		{Path: "/files.zip", Handle: ofBrowser(s.archive)},
		{Path: "/recording", Method: http.MethodPost, Handle: s.startRecording},
		{Path: "/recording", Method: http.MethodDelete, Handle: s.stopRecording},
	}
}

// Register adds the routes below /sessions to e. The guard checks them.
func (s *Service) Register(e *echo.Echo) {
	const base = "/sessions/:sessionId"
	e.GET(base+"/files", s.ofSession(s.list))
	e.GET(base+"/files/:file", s.ofSession(s.content))
	e.DELETE(base+"/files/:file", s.ofSession(s.remove))
	e.GET(base+"/files.zip", s.ofSession(s.archive))
	e.GET(base+"/recording", s.video)
	e.GET(base+"/recording/events", s.events)
	e.GET(base+"/recording/frames", s.frames)
	e.GET(base+"/recording/har", s.har)
	e.GET(base+"/recording/trace", s.trace)
	e.GET(base+"/recording/script", s.script)
	e.Match([]string{http.MethodGet, http.MethodHead}, base+"/recording/viewer/:file", s.viewerFile)
}

func ofBrowser(do handler) access.Handler {
	return func(c echo.Context, v access.AuthorizedRequest) error {
		if v.Files == nil {
			return access.ErrUnknownBrowser
		}
		defer v.Activity.Watch(nil)()
		v.Files.Sync(c.Request().Context())
		return do(c, v.Files)
	}
}

func (s *Service) ofSession(do handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := uuid.Parse(c.Param("sessionId"))
		if err != nil {
			return fault.Missing("session with files")
		}
		launch, ok := s.store.BySession(id)
		if !ok {
			return fault.New(fault.NotFound, "No such session with files. Files of an ended session are kept only if it was launched with browser.keepFiles.")
		}
		launch.Sync(c.Request().Context())
		return do(c, launch)
	}
}

// remove deletes a file.
func (s *Service) remove(c echo.Context, launch *files.Launch) error {
	if err := launch.Delete(c.Param("file")); err != nil {
		return toFault(err)
	}
	return c.JSON(http.StatusOK, workerapi.EmptyResponse{Success: true, Data: workerapi.Empty{}})
}

// toFault converts an error of package files.
func toFault(err error) error {
	var quota *files.QuotaError
	switch {
	case errors.Is(err, files.ErrNotFound):
		return fault.Missing("file")
	case errors.As(err, &quota):
		return fault.Wrap(err, fault.Conflict, "The files of this launch have reached their limit (LAUNCH_FILES_MB). Delete files and retry.", fault.Detail{
			Field: "body", Code: fault.TooBig, Message: "does not fit into the quota",
			Constraint: map[string]any{"current": quota.Used, "limit": quota.Limit},
		})
	case errors.Is(err, files.ErrDiskFull):
		return fault.Wrap(err, fault.Unavailable, "The disk of this worker is full. Retry later or use another worker.")
	case errors.Is(err, files.ErrEnded):
		return access.ErrUnknownBrowser
	}
	return err
}

// noContent is the error for a file that cannot be downloaded.
func noContent(f files.File) error {
	reason := fmt.Sprintf("its state is %s", f.State)
	if f.State == files.Complete {
		reason = "the browser has removed or replaced it"
	}
	return fault.New(fault.Conflict, "The file has no content: "+reason+". Download it again.")
}
