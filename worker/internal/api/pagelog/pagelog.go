// Package pagelog collects what the pages of a browser write to their consoles:
// messages, uncaught exceptions, failed requests and warnings of the browser.
//
// Collecting starts when a client first asks for the log, or at the launch with
// browser.logs. Chromium keeps the messages of open documents, so that the first
// answer also has those from before.
package pagelog

import (
	"slices"
	"sync"
	"time"
)

// The limits of one log. The oldest entries are dropped first.
const (
	MaxEntries = 1000
	maxBytes   = 2 << 20
	maxText    = 4 << 10 // bytes of a text
	maxURL     = 2 << 10
)

// Kind is the origin of an entry.
type Kind string

// The kinds.
const (
	Console   Kind = "console"   // console.log and others
	Exception Kind = "exception" // uncaught, or an unhandled rejection
	Request   Kind = "request"   // a request failed, or its status is 400 or more
	Browser   Kind = "browser"   // a message of the browser, such as a violated policy
)

// Level is the severity of an entry.
type Level string

// The levels.
const (
	Debug   Level = "debug"
	Info    Level = "info"
	Warning Level = "warning"
	Error   Level = "error"
)

// Entry is one message. URL, Line and Column name the place in a script, or the
// requested address; Line and Column start at 1 and are 0 if unknown.
type Entry struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Kind     Kind      `json:"kind"`
	Level    Level     `json:"level"`
	Text     string    `json:"text"`
	URL      string    `json:"url,omitempty"`
	Line     int       `json:"line,omitempty"`
	Column   int       `json:"column,omitempty"`
	TargetID string    `json:"targetId,omitempty"` // of the tab or worker
}

// Log is the log of one browser. It is safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	entries []Entry
	bytes   int
	last    int64         // the highest sequence number
	changed chan struct{} // closed when an entry is added or the log ends
	ended   bool
}

func newLog() *Log { return &Log{changed: make(chan struct{})} }

// add appends an entry.
func (l *Log) add(e Entry) {
	e.Text, e.URL = cut(e.Text, maxText), cut(e.URL, maxURL)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.last++
	e.Seq = l.last
	l.entries = append(l.entries, e)
	l.bytes += len(e.Text) + len(e.URL)
	drop := max(0, len(l.entries)-MaxEntries)
	for i := 0; i < len(l.entries) && (i < drop || l.bytes > maxBytes); i++ {
		l.bytes -= len(l.entries[i].Text) + len(l.entries[i].URL)
		drop = max(drop, i+1)
	}
	l.entries = slices.Delete(l.entries, 0, drop)
	l.notify()
}

// end wakes the readers for the last time.
func (l *Log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.notify()
}

// notify wakes the readers. The caller holds the lock.
func (l *Log) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Page is a part of a log.
type Page struct {
	Entries []Entry
	LastSeq int64           // the sequence number to continue after
	Dropped int64           // entries after the requested number that are no longer stored
	Changed <-chan struct{} // closed when there is more, or the log has ended
	Ended   bool
}

// After returns at most limit entries with a higher sequence number.
func (l *Log) After(seq int64, limit int) Page {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq = min(seq, l.last)
	first := l.last - int64(len(l.entries)) + 1
	p := Page{LastSeq: seq, Dropped: max(0, first-seq-1), Changed: l.changed, Ended: l.ended, Entries: []Entry{}}
	start := int(max(0, seq-first+1))
	p.Entries = append(p.Entries, l.entries[start:min(len(l.entries), start+limit)]...)
	if n := len(p.Entries); n > 0 {
		p.LastSeq = p.Entries[n-1].Seq
	}
	return p
}
