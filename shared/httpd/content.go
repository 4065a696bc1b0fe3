package httpd

import (
	"net/http"
	"time"
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
	refused int // the suppressed status
}

// NewContentWriter returns a writer that calls cancel if the client stops reading. The
// caller must call Stop.
func NewContentWriter(w http.ResponseWriter, cancel func()) *ContentWriter {
	return &ContentWriter{ResponseWriter: w, control: http.NewResponseController(w), timer: time.AfterFunc(stallTimeout, cancel)}
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

// Refused returns the suppressed status; 0 if there is none.
func (p *ContentWriter) Refused() int { return p.refused }

// Stop ends the deadlines.
func (p *ContentWriter) Stop() {
	p.timer.Stop()
	_ = p.control.SetWriteDeadline(time.Time{})
}
