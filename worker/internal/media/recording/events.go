package recording

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
)

const (
	maxEvents    = 15 << 20 // bytes of the events of a recording
	maxText      = 4 << 10  // bytes of a text
	maxURL       = 2 << 10
	maxName      = 200
	eventsBuffer = 256
	flushEvery   = time.Second
)

// Kind is what has happened.
type Kind string

// The kinds that this package adds. Others come from the log of pages.
const (
	Started    Kind = "recording_started"
	Ended      Kind = "recording_ended"
	Truncated  Kind = "truncated" // later events are missing
	TabOpened  Kind = "tab_opened"
	TabClosed  Kind = "tab_closed"
	Navigation Kind = "navigation"
)

// Event is an entry of the timeline. It contains no titles, contents or input.
type Event struct {
	AtMs     int64     `json:"atMs"` // since the start of the recording
	At       time.Time `json:"at"`
	Kind     Kind      `json:"kind"`
	TargetID string    `json:"targetId,omitempty"`
	Level    string    `json:"level,omitempty"`
	Text     string    `json:"text,omitempty"`
	URL      string    `json:"url,omitempty"`
	Line     int       `json:"line,omitempty"`
	Column   int       `json:"column,omitempty"`
	Role     string    `json:"role,omitempty"` // of a control
	Name     string    `json:"name,omitempty"` // the accessible name
}

// recordEvents records until ctx ends. It returns why it has failed.
func (r *recorder) recordEvents(ctx context.Context) Reason {
	f, err := os.OpenFile(filepath.Join(r.subject.Dir, EventsName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		r.service.Log.Error("failed to store events", "sessionId", r.subject.Session, "error", err)
		return DiskFull
	}
	defer f.Close()
	t := &timeline{began: r.current().StartedAt, out: bufio.NewWriter(f)}
	var source sync.WaitGroup
	events := make(chan Event, eventsBuffer)
	source.Go(func() {
		repeat(ctx, func(ctx context.Context) error {
			return r.subject.Events(ctx, func(e Event) { events <- e })
		})
		close(events)
	})
	t.add(Event{At: t.began, Kind: Started})
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for open := true; open; {
		var e Event
		select {
		case e, open = <-events:
			if open {
				t.add(e)
			}
		case <-flush.C:
			t.flush()
		}
	}
	source.Wait()
	t.last = true
	t.add(Event{At: time.Now(), Kind: Ended})
	if t.flush(); t.err != nil {
		r.service.Log.Error("failed to store events", "sessionId", r.subject.Session, "error", t.err)
		return DiskFull
	}
	return ""
}

// timeline writes events as lines.
type timeline struct {
	began     time.Time
	out       *bufio.Writer
	written   int
	truncated bool
	last      bool // the next event is the last one
	err       error
}

func (t *timeline) add(e Event) {
	e = e.Clean()
	e.AtMs = max(e.At.Sub(t.began).Milliseconds(), 0)
	raw, err := json.Marshal(e)
	if err != nil || t.truncated && !t.last {
		return
	}
	if t.written += len(raw) + 1; t.written > maxEvents && !t.truncated && !t.last {
		t.truncated = true
		raw, _ = json.Marshal(Event{AtMs: e.AtMs, At: e.At, Kind: Truncated}) // strings and numbers cannot fail
	}
	if _, err := t.out.Write(append(raw, '\n')); err != nil && t.err == nil {
		t.err = err
	}
}

func (t *timeline) flush() {
	if err := t.out.Flush(); err != nil && t.err == nil {
		t.err = err
	}
}

// Clean returns the event with short texts, and with addresses as StripURL returns them.
func (e Event) Clean() Event {
	e.At = e.At.UTC()
	e.URL, e.Text = cut(StripURL(e.URL), maxURL), cut(stripURLs(e.Text), maxText)
	e.Role, e.Name = cut(e.Role, maxName), cut(stripURLs(e.Name), maxName)
	return e
}

// StripURL removes what can contain input or secrets: user, query and fragment. Of other
// addresses than those of sites it keeps the scheme.
func StripURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss", "file", "chrome", "chrome-extension":
		u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
		return u.String()
	case "about":
		return "about:" + u.Opaque
	case "":
		return ""
	}
	return u.Scheme + ":"
}

var textURL = lazy.Regexp(`(?i)\b(https?|wss?)://[^\s'"<>)]+`)

// stripURLs strips the URLs in a text.
func stripURLs(text string) string { return textURL().ReplaceAllStringFunc(text, StripURL) }

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}
