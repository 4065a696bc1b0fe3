package fileserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/media/recording"
)

// Recorder starts and stops recordings of running browsers. Errors: *fault.Error, those of packages files and recording.
type Recorder interface {
	StartRecording(browser access.Browser, parts []string) (*workerapi.Recording, error)
	// StopRecording returns when the recording is complete. Error: recording.ErrNone if the browser is not recorded.
	StopRecording(ctx context.Context, browser access.Browser) (*workerapi.Recording, error)
}

// startRecording starts to record a browser.
func (s *Service) startRecording(c echo.Context, v access.AuthorizedRequest) error {
	defer v.Activity.Watch(nil)()
	var request workerapi.StartRecordingRequest
	if err := json.NewDecoder(c.Request().Body).Decode(&request); err != nil { // the guard has checked it
		return fmt.Errorf("decode the request: %w", err)
	}
	var parts []string
	for _, part := range request.Record {
		parts = append(parts, string(part))
	}
	started, err := s.recorder.StartRecording(v.Browser, parts)
	if err != nil {
		return toFault(recordingFault(err))
	}
	c.Response().Header().Set(echo.HeaderLocation, s.address.Path("/sessions/"+v.SessionID+"/recording"))
	return c.JSON(http.StatusCreated, workerapi.RecordingResponse{Success: true, Data: started})
}

// stopRecording stops the recording of a browser, and answers when it is complete.
func (s *Service) stopRecording(c echo.Context, v access.AuthorizedRequest) error {
	defer v.Activity.Watch(nil)()
	stopped, err := s.recorder.StopRecording(c.Request().Context(), v.Browser)
	switch {
	case errors.Is(err, recording.ErrNone):
		return fault.New(fault.Conflict, "This session is not being recorded.")
	case err != nil:
		return toFault(recordingFault(err))
	}
	return c.JSON(http.StatusOK, workerapi.RecordingResponse{Success: true, Data: stopped})
}
