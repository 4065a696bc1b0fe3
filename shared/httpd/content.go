package httpd

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/browser-svc/svc/shared/fault"
)

// stallTimeout is how long a download may make no progress before it is aborted.
const stallTimeout = time.Minute

// ContentWriter extends the write deadline as long as a download makes
// progress, and ends it if it makes none. It suppresses the 412 and 416 of http.ServeContent, whose bodies do
// not have the service's error format.
type ContentWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timer   *time.Timer
	before  http.Header // as NewContentWriter has found them
	refused int         // the suppressed status
}

// NewContentWriter returns a writer that calls cancel if the client stops reading. The
// caller must call Stop, and sets the headers that describe the content afterwards.
func NewContentWriter(w http.ResponseWriter, cancel func()) *ContentWriter {
	return &ContentWriter{
		ResponseWriter: w, control: http.NewResponseController(w), timer: time.AfterFunc(stallTimeout, cancel), before: w.Header().Clone(),
	}
}

// Serve is http.ServeContent. noun is what errors call the content, and size its length
// in bytes. Errors: PreconditionFailed, RangeNotSatisfiable.
func (p *ContentWriter) Serve(r *http.Request, modified time.Time, content io.ReadSeeker, noun string, size int64) error {
	http.ServeContent(p, r, "", modified, content)
	if p.refused == 0 {
		return nil
	}
	p.RestoreHeaders()
	if p.refused == http.StatusPreconditionFailed {
		return fault.New(fault.PreconditionFailed, "The "+noun+" does not match the precondition of the request.")
	}
	p.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", size))
	return fault.New(fault.RangeNotSatisfiable, "The range is outside the "+noun+".", fault.Detail{
		Field: "Range", Code: fault.Custom, Message: "must lie within the " + noun, Constraint: map[string]any{"max": size},
	})
}

// RestoreHeaders removes the headers that describe the content, for a failure.
func (p *ContentWriter) RestoreHeaders() {
	clear(p.Header())
	maps.Copy(p.Header(), p.before)
}

// WriteHeader implements http.ResponseWriter.
func (p *ContentWriter) WriteHeader(status int) {
	if status == http.StatusPreconditionFailed || status == http.StatusRequestedRangeNotSatisfiable {
		p.refused = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *ContentWriter) Write(b []byte) (int, error) {
	if p.refused != 0 {
		return len(b), nil
	}
	p.timer.Reset(stallTimeout)
	_ = p.control.SetWriteDeadline(time.Now().Add(stallTimeout)) // fails for the recorder of a test
	return p.ResponseWriter.Write(b)
}

// Pause suspends the deadlines until the next write.
func (p *ContentWriter) Pause() { p.Stop() }

// Stop ends the deadlines.
func (p *ContentWriter) Stop() {
	p.timer.Stop()
	_ = p.control.SetWriteDeadline(time.Time{})
}
