package recording

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/media/har"
)

const (
	maxBodies = 64 << 20  // bytes of the bodies of responses in a recording
	maxHAR    = 256 << 20 // bytes of HARName
)

// harLine is a line of HARName: one of these.
type harLine struct {
	Browser *har.Browser `json:"browser,omitempty"`
	Page    *har.Page    `json:"page,omitempty"`
	Entry   *har.Entry   `json:"entry,omitempty"`
	Missed  string       `json:"missed,omitempty"` // why entries are missing
}

// Why entries are missing.
const (
	missedEvents = "Entries are missing: the worker did not receive all events of the browser in time, from "
	missedRest   = "Entries are missing: the archive has reached its limit, at "
)

// RequestLog stores the requests of a recording. The methods that store something must not be called concurrently.
type RequestLog struct {
	file        *os.File
	end         func() // called when nothing more is stored
	written     int64
	connections int
	full        bool
	err         error
	bodies      atomic.Int64 // bytes
	pages       atomic.Int64
}

// recordRequests records until ctx ends or nothing more can be stored. It returns why it has failed.
func (r *recorder) recordRequests(ctx context.Context) Reason {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	file, err := os.OpenFile(filepath.Join(r.subject.Dir, HARName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		log := &RequestLog{file: file, end: cancel}
		repeat(ctx, func(ctx context.Context) error { return r.subject.Requests(ctx, log) })
		err = errors.Join(log.err, file.Close())
	}
	if err != nil {
		r.service.Log.Error("failed to store requests", "sessionId", r.subject.Session, "error", err)
		return HARFailed
	}
	return ""
}

// Begin stores the name and the version of the browser, and that entries are missing if the collection was interrupted.
func (l *RequestLog) Begin(b har.Browser) {
	if l.connections > 0 {
		l.Missed()
	}
	l.connections++
	l.add(harLine{Browser: &b})
}

// Page stores a page, again when its times are known.
func (l *RequestLog) Page(p har.Page) { l.add(harLine{Page: &p}) }

// Entry stores an entry.
func (l *RequestLog) Entry(e har.Entry) { l.add(harLine{Entry: &e}) }

// Missed stores that entries are missing.
func (l *RequestLog) Missed() { l.add(harLine{Missed: missedEvents + now()}) }

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// PageID returns an id for a page.
func (l *RequestLog) PageID() string {
	return "page_" + strconv.FormatInt(l.pages.Add(1), 10)
}

// KeepBody reports whether a body still fits into the recording.
func (l *RequestLog) KeepBody(bytes int64) bool {
	return l.bodies.Add(bytes) <= maxBodies
}

func (l *RequestLog) add(line harLine) {
	if l.full || l.err != nil {
		return
	}
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	l.err = encoder.Encode(line)
	if l.full = l.written+int64(raw.Len()) > maxHAR; l.full && l.err == nil {
		raw.Reset()
		l.err = encoder.Encode(harLine{Missed: missedRest + now()})
	}
	if l.err == nil {
		l.written += int64(raw.Len())
		_, l.err = l.file.Write(raw.Bytes())
	}
	if l.full || l.err != nil {
		l.end()
	}
}

// OpenHAR opens the requests of a recording, also of a running one. Errors: ErrNone, ErrMissing, ErrStore.
func (s *Service) OpenHAR(ctx context.Context, session uuid.UUID) (*Archive, error) {
	content, err := s.open(ctx, session, HARName, true)
	if err != nil {
		return nil, err
	}
	return &Archive{content}, nil
}

// Archive has the requests of a recording.
type Archive struct{ content Content }

// Close closes the archive.
func (a *Archive) Close() error { return a.content.Close() }

// Write writes the archive as HAR 1.2. Only one entry is in memory. creator has written the archive.
func (a *Archive) Write(out io.Writer, creator har.Browser) error {
	w := bufio.NewWriter(out)
	_, _ = w.WriteString(`{"log":{"version":"1.2","entries":[`) // Flush returns errors
	rest, err := a.writeEntries(w)
	if err != nil {
		return err
	}
	rest.Creator = creator
	raw, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	_, _ = w.WriteString("]," + string(raw[1:]) + "}\n")
	return w.Flush()
}

// harRest is the log without its entries.
type harRest struct {
	Creator har.Browser  `json:"creator"`
	Browser *har.Browser `json:"browser,omitempty"`
	Pages   []har.Page   `json:"pages"`
	Comment string       `json:"comment,omitempty"`
}

func (a *Archive) writeEntries(w io.Writer) (harRest, error) {
	rest, pages, separator := harRest{}, map[string]har.Page{}, ""
	err := a.lines(func(raw []byte) error {
		var line struct {
			harLine
			Entry json.RawMessage `json:"entry"`
		}
		if err := json.Unmarshal(raw, &line); err != nil {
			return fmt.Errorf("%w: a request is damaged: %w", ErrStore, err)
		}
		switch {
		case line.Entry != nil:
			if _, err := fmt.Fprintf(w, "%s%s", separator, line.Entry); err != nil {
				return err
			}
			separator = ","
		case line.Page != nil:
			pages[line.Page.ID] = *line.Page
		case line.Browser != nil:
			rest.Browser = line.Browser
		case line.Missed != "" && rest.Comment == "":
			rest.Comment = line.Missed
		}
		return nil
	})
	rest.Pages = slices.SortedFunc(maps.Values(pages), func(a, b har.Page) int { return a.StartedDateTime.Compare(b.StartedDateTime) })
	if rest.Pages == nil {
		rest.Pages = []har.Page{}
	}
	return rest, err
}

// lines calls use for each line of HARName, until an error.
func (a *Archive) lines(use func(raw []byte) error) error {
	lines := bufio.NewReader(io.LimitReader(a.content, a.content.Size()))
	for {
		raw, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF): // what follows the last line feed is incomplete
			return nil
		case err != nil:
			return fmt.Errorf("%w: read the requests: %w", ErrStore, err)
		}
		if err := use(raw); err != nil {
			return err
		}
	}
}
