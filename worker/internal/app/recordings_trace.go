package app

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/browser-svc/svc/worker/internal/api/pagelog"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/media/trace"
)

// maxTraceMessage limits, in bytes, a snapshot or a picture of a page.
const maxTraceMessage = 32 << 20

// tracer returns the recorder of the trace of a browser.
func (w *worker) tracer(b access.Browser) *trace.Recorder {
	w.logs.Start(b)
	return trace.New(trace.Source{
		Title: cmp.Or(b.Name, b.SessionID), Browser: strconv.Itoa(b.BrowserVersion), Began: time.Now(),
		Connect:   func(ctx context.Context) (*cdp.Conn, error) { return b.ObserveCDP(ctx, maxTraceMessage) },
		KeepAwake: b.KeepAwake, Tap: b.Calls.Tap(), Filled: b.Filled,
		Messages: func(ctx context.Context, add func(trace.Message)) error {
			return watchMessages(ctx, w.logs, b, func(e recording.Event) {
				add(trace.Message{
					At: e.At, TargetID: e.TargetID, Exception: e.Kind == recording.Kind(pagelog.Exception), Level: e.Level, Text: e.Text, URL: e.URL, Line: e.Line, Column: e.Column,
				})
			})
		},
	})
}
