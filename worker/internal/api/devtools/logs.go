package devtools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/api/pagelog"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

const (
	logTimeout        = 15 * time.Second // to collect the messages of open pages
	logStreamTimeout  = 24 * time.Hour
	logStreamInterval = 15 * time.Second // between comments that keep the connection open
	maxLogPage        = pagelog.MaxEntries

	eventStream = "text/event-stream"
)

// Logs collects the console messages of browsers.
type Logs interface {
	Open(ctx context.Context, browser access.Browser) (*pagelog.Log, error)
}

// pageLogs answers with the log of a browser, or with a stream of it. Reading a log is
// not client activity.
func (s *Service) pageLogs(c echo.Context, v access.AuthorizedRequest) error {
	q := queryOf(c)
	after, limit := q.integer("after", 0), q.integer("limit", maxLogPage)
	if err := q.err(); err != nil {
		return err
	}
	stream := strings.Contains(c.Request().Header.Get("Accept"), eventStream)
	timeout := logTimeout
	if stream {
		timeout = logStreamTimeout
		if last, err := strconv.Atoi(c.Request().Header.Get("Last-Event-ID")); err == nil { // of a client that reconnects
			after = last
		}
	}
	ctx, done, err := s.beginTaskAs(c.Request().Context(), v, timeout, v.Activity.Count)
	if err != nil {
		return err
	}
	defer done()
	opening, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	log, err := s.logs.Open(opening, v.Browser)
	if err != nil {
		return s.toFault(v, err)
	}
	if stream {
		return streamLog(ctx, c, log, int64(after))
	}
	p := log.After(int64(after), limit)
	type page struct {
		Items   []pagelog.Entry `json:"items"`
		LastSeq int64           `json:"lastSeq"`
		Dropped int64           `json:"dropped"`
	}
	return c.JSON(http.StatusOK, struct {
		Success bool `json:"success"`
		Data    page `json:"data"`
	}{true, page{p.Entries, p.LastSeq, p.Dropped}})
}

// streamLog sends the entries as server-sent events until the browser ends or the
// client disconnects.
func streamLog(ctx context.Context, c echo.Context, log *pagelog.Log, after int64) error {
	response := c.Response()
	response.Header().Set("Content-Type", eventStream)
	response.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	response.WriteHeader(http.StatusOK)
	alive := time.NewTicker(logStreamInterval)
	defer alive.Stop()
	for {
		p := log.After(after, maxLogPage)
		after = p.LastSeq
		if err := sendEntries(response, p); err != nil {
			return nil // the client has disconnected
		}
		if len(p.Entries) > 0 {
			continue
		}
		if p.Ended {
			_, _ = fmt.Fprint(response, "event: end\ndata: {}\n\n") // the client may have disconnected
			return nil
		}
		select {
		case <-p.Changed:
		case <-alive.C:
			if _, err := fmt.Fprint(response, ": alive\n\n"); err != nil {
				return nil
			}
			response.Flush()
		case <-ctx.Done():
			return nil
		}
	}
}

// sendEntries sends entries as events.
func sendEntries(response *echo.Response, p pagelog.Page) error {
	if p.Dropped > 0 {
		if _, err := fmt.Fprintf(response, "event: dropped\ndata: {\"count\":%d}\n\n", p.Dropped); err != nil {
			return err
		}
	}
	for _, entry := range p.Entries {
		text, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(response, "id: %d\nevent: entry\ndata: %s\n\n", entry.Seq, text); err != nil {
			return err
		}
	}
	response.Flush()
	return nil
}
