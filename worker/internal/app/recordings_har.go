package app

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// requestsStart is the longest time that a launch waits until its requests are recorded.
const requestsStart = 5 * time.Second

// collectRequests records the requests of a browser, without the values that the worker has filled. It calls ready
// when later requests are recorded. The browser can be frozen meanwhile.
func collectRequests(ctx context.Context, b access.Browser, log *recording.RequestLog, ready func()) error {
	conn, err := b.ObserveCDP(ctx, har.MaxMessage)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	name, err := har.BrowserOf(ctx, conn)
	if err != nil {
		return err
	}
	log.Begin(name)
	return har.Collect(ctx, conn, har.Options{
		Ready: ready, Secrets: b.Filled.Values, KeepBody: log.KeepBody, Page: log.Page, Missed: log.Missed, PageID: log.PageID,
	}, log.Entry)
}

// openReplay implements launch.OpenReplay. Who may read recordings may replay them: a caller with the worker key, also where
// it is sent as an organization key.
func (w *worker) openReplay(ctx context.Context, caller session.OrganizationKey, recorded uuid.UUID) (*browser.Replay, error) {
	workerKey := session.NewOrganizationKey(cmp.Or(w.config.WorkerKey, w.config.organizationKey()))
	if !caller.IsZero() && !caller.Equal(workerKey) {
		return nil, launch.ErrReplayForbidden
	}
	opened, err := w.recordings.OpenReplay(ctx, recorded)
	switch {
	case errors.Is(err, recording.ErrNone):
		return nil, launch.ErrReplayUnknown
	case errors.Is(err, recording.ErrMissing):
		return nil, launch.ErrReplayEmpty
	case err != nil:
		return nil, err
	}
	return &browser.Replay{Take: func(r browser.ReplayRequest) func(context.Context) (*http.Response, error) {
		return opened.Take(recording.Request(r)) //nolint:bodyclose // it reads nothing
	}}, nil
}

// requestsOf returns what records the requests of a browser, and a function that waits until it does, so that a client
// can rely on it.
func requestsOf(b access.Browser) (collect func(context.Context, *recording.RequestLog) error, await func()) {
	recorded := make(chan struct{})
	ready := sync.OnceFunc(func() { close(recorded) })
	collect = func(ctx context.Context, log *recording.RequestLog) error { return collectRequests(ctx, b, log, ready) }
	return collect, func() {
		select {
		case <-recorded:
		case <-b.Done:
		case <-time.After(requestsStart):
		}
	}
}
