package fileserver

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

const (
	maxUpload   = 2 << 30     // bytes
	uploadPause = time.Minute // after which a client that sends nothing is disconnected
)

// upload stores the body as a file for the browser. It does not go through the guard,
// which reads bodies into memory.
func (s *Service) upload(c echo.Context, v access.AuthorizedRequest) error {
	if v.Files == nil {
		return access.ErrUnknownBrowser
	}
	defer v.Activity.Watch(nil)()
	r := c.Request()
	name, err := url.PathUnescape(c.Param("file"))
	if err != nil {
		name = c.Param("file")
	}
	if problem := files.CheckName(name); problem != "" {
		return fault.Field("file", problem)
	}
	if r.ContentLength > maxUpload {
		return fault.Oversized(nil, maxUpload)
	}
	body := &uploadReader{Reader: http.MaxBytesReader(c.Response(), r.Body, maxUpload), control: http.NewResponseController(c.Response())}
	added, err := v.Files.Add(name, r.ContentLength, body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.Oversized(err, tooLarge.Limit)
	}
	if body.failed != nil {
		return fault.Wrap(err, fault.Validation, "The request body is incomplete.", fault.Detail{
			Field: "body", Code: fault.Custom, Message: "must be complete",
		})
	}
	if err != nil {
		return toFault(err)
	}
	c.Response().Header().Set(echo.HeaderLocation, s.address.Path("/browsers/"+v.LaunchID+"/files/"+added.ID))
	return c.JSON(http.StatusCreated, workerapi.LaunchFileResponse{Success: true, Data: toAPI(added)})
}

// uploadReader reads a body, and extends the read deadline as long as the client sends
// something.
type uploadReader struct {
	io.Reader
	control *http.ResponseController
	failed  error
}

// Read implements io.Reader.
func (p *uploadReader) Read(buffer []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(uploadPause)) // fails for the recorder of a test
	n, err := p.Reader.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		p.failed = err
	}
	return n, err
}
