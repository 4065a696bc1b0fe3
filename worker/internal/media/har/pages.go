package har

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	loadTimeout  = time.Minute // of a page, for its times
	worldTimeout = 5 * time.Second
)

// tab is a tab with its pages.
type tab struct {
	target   string
	page     *page // nil before the first document that was requested
	previous *page // its requests can go on while the next document is loaded
}

// page is a Page, which is never changed, and the id of its document.
type page struct {
	Page
	loader string
}

// place assigns an exchange to its target and its page.
func (c *collector) place(x *exchange, p networkEvent) {
	s := c.sessions[x.session]
	if s == nil {
		return
	}
	x.target = s.target
	if s.tab == nil {
		return
	}
	x.isMain = s.kind == "page" && p.Type == "Document" && p.FrameID == s.tab.target && p.RequestID == p.LoaderID
	if x.isMain && p.RedirectResponse == nil {
		c.pages++
		id := "page_" + strconv.Itoa(c.pages)
		if c.PageID != nil {
			id = c.PageID()
		}
		s.tab.previous, s.tab.page = s.tab.page, &page{loader: p.LoaderID, Page: Page{
			StartedDateTime: wallClock(p.WallTime), ID: id, Title: p.Request.URL, PageTimings: PageTimings{-1, -1},
		}}
		c.emit(item{page: &s.tab.page.Page})
	}
	x.page = s.tab.page
	if before := s.tab.previous; before != nil && before.loader == p.LoaderID {
		x.page = before
	}
}

// loadScript returns when a document has loaded, on its own clock.
const loadScript = `new Promise(resolve => {
  const report = () => setTimeout(() => {
    const n = performance.getEntriesByType('navigation')[0];
    resolve(n ? {url: n.name, content: n.domContentLoadedEventEnd, load: n.loadEventEnd} : {});
  });
  document.readyState === 'complete' ? report() : addEventListener('load', report, {once: true});
})`

// followLoad adds the times of a page when it has loaded. It asks a JavaScript world of its
// own, because Page.enable would take the dialogs of the page from its clients.
func (c *collector) followLoad(x *exchange) {
	if x.page == nil || c.Page == nil {
		return
	}
	loading, session, frame, address := x.page.Page, x.session, x.frame, x.request.URL
	c.work.Go(func() {
		times, err := c.awaitLoad(session, frame)
		if err != nil || times.URL != address { // the tab shows another document
			return
		}
		loading.PageTimings = PageTimings{milliseconds(times.Content / 1000), milliseconds(times.Load / 1000)}
		c.emit(item{page: &loading})
	})
}

type loadTimes struct {
	URL           string
	Content, Load float64 // milliseconds
}

func (c *collector) awaitLoad(session, frame string) (times loadTimes, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, loadTimeout)
	defer cancel()
	create, done := context.WithTimeout(ctx, worldTimeout)
	defer done()
	var world struct{ ExecutionContextID int }
	if err := c.conn.Call(create, session, "Page.createIsolatedWorld", map[string]any{"frameId": frame}, &world); err != nil {
		return times, err
	}
	var answer struct {
		Result struct{ Value loadTimes }
	}
	evaluate := map[string]any{"expression": loadScript, "contextId": world.ExecutionContextID, "awaitPromise": true, "returnByValue": true, "silent": true}
	if err := c.conn.Call(ctx, session, "Runtime.evaluate", evaluate, &answer); err != nil {
		return times, fmt.Errorf("wait for the page: %w", err)
	}
	answer.Result.Value.URL, _, _ = strings.Cut(answer.Result.Value.URL, "#")
	return answer.Result.Value, nil
}
