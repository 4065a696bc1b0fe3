package app

import (
	"context"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/media/recording"
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
