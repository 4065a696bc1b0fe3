package browser

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

const (
	captureTimeout  = 2 * time.Second // of one context
	syncTimeout     = time.Second
	quotaInterval   = 2 * time.Second // between checks without progress of a download
	recoverPause    = 10 * time.Second
	downloadsQueued = 4096 // unread events
)

// createFiles creates the directory of the launch's downloads and uploads.
func (b *Browser) createFiles() (err error) {
	if b.l.opts.Files == nil {
		return nil
	}
	b.files, err = b.l.opts.Files.Create(b.LaunchID, b.uid, b.paths().files)
	return err
}

// downloads makes the browser store all downloads in the launch's files, with their ids
// as names, and follows them. Chromium ends such a setting of a browser context when the
// session that made it ends; that of the worker lasts as long as the browser, but a client
// that makes its own ends it too. Package intercept therefore calls captureDownloads.
//
// Events are a matter of a session and not of a browser context: the worker gets those of
// all contexts.
type downloads struct {
	b    *Browser
	work sync.WaitGroup

	barriers   chan chan struct{} // of sync
	progressed chan struct{}      // a download has progressed since the last check of the quota

	recoverAgain <-chan time.Time // of follow

	mu       sync.Mutex
	closed   bool
	contexts map[string]bool // known browser contexts; "" is the default one
}

func newDownloads(b *Browser) *downloads {
	return &downloads{b: b, contexts: map[string]bool{"": true}, barriers: make(chan chan struct{}), progressed: make(chan struct{}, 1)}
}

// start begins to capture downloads. The returned function waits until it is in effect.
func (d *downloads) start(ctx context.Context) (wait func(context.Context) error) {
	if d.b.files == nil {
		return func(context.Context) error { return nil }
	}
	d.b.files.Connect(d.requestCancel, d.sync)
	events := d.subscribe()
	d.work.Go(func() { d.follow(events) })
	d.work.Go(d.watchQuota)
	reply, err := d.b.conn.Send(ctx, "", "Browser.setDownloadBehavior", d.behavior(""))
	if err != nil {
		return func(context.Context) error { return err }
	}
	return func(ctx context.Context) error { return reply.Wait(ctx, nil) }
}

func (d *downloads) subscribe() *cdp.Subscription {
	return d.b.conn.Subscribe(downloadsQueued, "Browser.downloadWillBegin", "Browser.downloadProgress")
}

// wait waits for all work; the connection must be closing.
func (d *downloads) wait() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.work.Wait()
}

// sync returns when all downloads are recorded that the browser has announced to any
// client so far: Chromium announces a download to all its connections at once.
func (d *downloads) sync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if d.b.conn.Call(ctx, "", "Browser.getVersion", nil, nil) != nil {
		return
	}
	recorded := make(chan struct{})
	select {
	case d.barriers <- recorded:
		<-recorded
	case <-d.b.conn.Done():
	case <-ctx.Done():
	}
}

// requestCancel cancels a download in the background.
func (d *downloads) requestCancel(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.work.Go(func() { d.cancel(id) })
	}
}

// denied reports whether the rules of the launch deny downloads.
func (d *downloads) denied() bool { return d.b.guard.policy().Downloads().Denied }

// behavior returns the parameters for one context.
func (d *downloads) behavior(browserContext string) object {
	params := object{"behavior": "allowAndName", "downloadPath": d.b.downloadPath(), "eventsEnabled": true}
	if d.denied() {
		params["behavior"] = "deny"
	}
	if browserContext != "" {
		params["browserContextId"] = browserContext
	}
	return params
}

// downloadPath is where the browser stores downloads, as it sees the directory.
func (b *Browser) downloadPath() string { return filepath.Join(b.paths().files, files.DownloadsBelow) }

// captureDownloads makes browser contexts store their downloads in the launch's files,
// without contexts all known ones.
func (b *Browser) captureDownloads(contexts ...string) {
	d := b.downloads
	if len(contexts) == 0 {
		contexts = d.known()
	}
	ctx, cancel := context.WithTimeout(context.Background(), captureTimeout)
	defer cancel()
	for _, contextID := range contexts {
		d.remember(contextID, true)
		err := b.conn.Call(ctx, "", "Browser.setDownloadBehavior", d.behavior(contextID), nil)
		if _, refused := errors.AsType[*cdp.Error](err); refused && contextID != "" { // the context has ended
			d.remember(contextID, false)
		} else if err != nil && !errors.Is(err, cdp.ErrClosed) {
			b.l.log.Warn("failed to capture downloads", "launchId", b.LaunchID, "error", err)
		}
	}
}

func (d *downloads) known() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.contexts))
}

func (d *downloads) remember(browserContext string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.contexts, browserContext)
	if known {
		d.contexts[browserContext] = true
	}
}

// cancel cancels a download. Its context is not known.
func (d *downloads) cancel(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), captureTimeout)
	defer cancel()
	for _, contextID := range d.known() {
		params := object{"guid": id}
		if contextID != "" {
			params["browserContextId"] = contextID
		}
		if d.b.conn.Call(ctx, "", "Browser.cancelDownload", params, nil) == nil {
			return
		}
	}
}

// downloadEvent has the parameters of both events.
type downloadEvent struct {
	GUID              string  `json:"guid"`
	URL               string  `json:"url"`
	SuggestedFilename string  `json:"suggestedFilename"`
	TotalBytes        float64 `json:"totalBytes"`
	ReceivedBytes     float64 `json:"receivedBytes"`
	State             string  `json:"state"`
	FilePath          string  `json:"filePath"`
}

// follow records the browser's events until its connection ends.
func (d *downloads) follow(events *cdp.Subscription) {
	for events != nil {
		select {
		case event, open := <-events.Events():
			if open {
				d.record(event)
			} else {
				events = d.resume(events)
			}
		case recorded := <-d.barriers:
			for queued := len(events.Events()); queued > 0; queued-- {
				d.record(<-events.Events())
			}
			if events.Err() != nil {
				events = d.resume(events)
			}
			close(recorded)
		case <-d.recoverAgain:
			d.recover()
		}
	}
}

// resume records the rest of a subscription that has ended and, if events were lost, what
// became of the downloads. It returns the next subscription, or nil if the connection has
// ended.
func (d *downloads) resume(ended *cdp.Subscription) *cdp.Subscription {
	for event := range ended.Events() {
		d.record(event)
	}
	if !errors.Is(ended.Err(), cdp.ErrLagged) {
		return nil
	}
	d.b.l.log.Warn("events of downloads were lost; their files are looked up", "launchId", d.b.LaunchID)
	events := d.subscribe()
	d.recover()
	return events
}

// recover records downloads whose events were lost before the present subscription.
func (d *downloads) recover() {
	d.recoverAgain = nil
	if d.b.files.Recover() {
		d.recoverAgain = time.After(recoverPause)
	}
}

func (d *downloads) record(event cdp.Event) {
	var e downloadEvent
	if err := json.Unmarshal(event.Params, &e); err != nil {
		d.b.l.log.Error("failed to decode download event", "launchId", d.b.LaunchID, "error", err)
		return
	}
	launch := d.b.files
	switch {
	case event.Method == "Browser.downloadWillBegin":
		launch.Began(e.GUID, e.URL, e.SuggestedFilename)
		if d.denied() { // Chromium refuses it, unless a client has changed that
			d.requestCancel(e.GUID)
		}
		return
	case e.State == "completed" && d.denied():
		launch.Stopped(e.GUID)
	case e.State == "completed":
		launch.Completed(e.GUID, e.FilePath)
	case e.State == "canceled":
		launch.Stopped(e.GUID)
	default:
		launch.Progressed(e.GUID, int64(e.ReceivedBytes), int64(e.TotalBytes))
	}
	select {
	case d.progressed <- struct{}{}:
	default: // it will be checked
	}
}

// watchQuota checks the quota until the connection of the browser ends. It does not delay
// the events.
func (d *downloads) watchQuota() {
	ticker := time.NewTicker(quotaInterval)
	defer ticker.Stop()
	for {
		select {
		case <-d.progressed:
		case <-ticker.C:
		case <-d.b.conn.Done():
			return
		}
		d.checkQuota()
	}
}

// checkQuota cancels downloads that exceed the quota. It ends a browser that exceeds the
// quota by writing files itself, which Chromium does not do unless it is compromised.
func (d *downloads) checkQuota() {
	if !d.b.files.CheckQuota() {
		return
	}
	d.b.l.log.Error("browser ended: it has filled its directory of downloads without downloading", "launchId", d.b.LaunchID, "usedBytes", d.b.files.Usage())
	d.b.killNow()
}
