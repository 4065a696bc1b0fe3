package audit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	maxQueued  = 1024            // entries of a kind that are not written yet
	retryPause = time.Second     // after a source has failed
	endGrace   = 5 * time.Second // between the failure of a source and the end of its browser
	closeWait  = 2 * time.Second // for the last events of sources
)

// Log is the log of a running session. The nil Log discards everything.
type Log struct {
	logger *slog.Logger
	closed func(*chain, error) // counts the result, and releases the file name

	ctx     context.Context // of the sources; ends with Close
	cancel  context.CancelFunc
	sources sync.WaitGroup

	wake    chan struct{} // closed by Close
	written chan struct{} // closed when the file is closed

	mu     sync.Mutex
	ending bool // no source is followed any more
	ended  bool // no entry is added any more
	queue  []*pending
	queued map[Kind]int
	lost   int64 // since the last entry of the queue
}

// pending is an entry that is not written yet. It has no data while its place is reserved.
type pending struct {
	kind      Kind
	timestamp time.Time
	data      Data
}

// newLog starts to write a chain. The caller must call Close.
func newLog(c *chain, logger *slog.Logger, closed func(*chain, error)) *Log {
	l := &Log{logger: logger, closed: closed, wake: make(chan struct{}, 1), written: make(chan struct{}), queued: map[Kind]int{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.write(c)
	return l
}

// Add adds an entry. It never blocks: an entry that cannot be queued is counted as lost.
func (l *Log) Add(timestamp time.Time, data Data) {
	l.enqueue(&pending{data.kind(), timestamp, data})
}

// Reserve reserves the place of an entry of the kind of example, which becomes known soon:
// until then, no later entry is written. If add is not called before Close, the entry is lost.
func (l *Log) Reserve(example Data) (add func(timestamp time.Time, data Data)) {
	p := &pending{kind: example.kind()}
	if !l.enqueue(p) {
		return func(time.Time, Data) {}
	}
	return func(timestamp time.Time, data Data) { l.fill(p, timestamp, data) }
}

func (l *Log) enqueue(p *pending) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	if l.queued[p.kind] >= maxQueued {
		l.lost++
		return false
	}
	l.queued[p.kind]++
	l.queue = append(l.queue, p)
	if p.data != nil {
		l.requestWrite()
	}
	return true
}

func (l *Log) fill(p *pending, timestamp time.Time, data Data) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	p.timestamp, p.data = timestamp, data
	l.requestWrite()
}

// requestWrite wakes the writer. The caller holds the lock, and the log has not ended.
func (l *Log) requestWrite() {
	select {
	case l.wake <- struct{}{}:
	default: // it will be written
	}
}

// Follow runs a source of events until its browser ends. A source calls ready when it gets
// events, and returns when it gets no more. It is run again, and the log says that events
// were lost.
func (l *Log) Follow(name string, browserEnded <-chan struct{}, source func(ctx context.Context, ready func()) error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return
	}
	l.sources.Go(func() { l.follow(name, browserEnded, source) })
}

func (l *Log) follow(name string, browserEnded <-chan struct{}, source func(ctx context.Context, ready func()) error) {
	var failed time.Time // zero: no events are lost
	report := func() {
		if !failed.IsZero() {
			l.Add(time.Now(), Lost{Source: name})
			failed = time.Time{}
		}
	}
	for l.ctx.Err() == nil {
		err := source(l.ctx, report)
		if failed.IsZero() {
			failed = time.Now()
		}
		if errors.Is(err, cdp.ErrLagged) { // otherwise the browser may have ended
			report()
		}
		select {
		case <-browserEnded:
			if !failed.IsZero() && time.Since(failed) > endGrace {
				report()
			}
			return
		case <-time.After(retryPause):
			l.logger.Warn("events for an activity log were interrupted", "source", name, "error", err)
		case <-l.ctx.Done():
		}
	}
}

// Close waits for the last events of the sources, whose browser has ended, adds the end and
// seals the log. It returns when the log is on the disk.
func (l *Log) Close(timestamp time.Time, end End) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	waiting := time.AfterFunc(closeWait, l.cancel)
	l.sources.Wait()
	waiting.Stop()
	l.cancel()
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		l.queue = append(l.queue, &pending{kindEnd, timestamp, end})
		close(l.wake)
	}
	l.mu.Unlock()
	<-l.written
}

// take returns the entries to write, and how many were lost after them.
func (l *Log) take() (entries []*pending, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := slices.IndexFunc(l.queue, func(p *pending) bool { return p.data == nil })
	if known < 0 || l.ended {
		known = len(l.queue)
	}
	entries, l.queue = l.queue[:known:known], l.queue[known:]
	for _, p := range entries {
		l.queued[p.kind]--
	}
	if len(l.queue) == 0 {
		lost, l.lost = l.lost, 0
	}
	return entries, lost
}

// write writes entries until Close. Then it seals the log.
func (l *Log) write(c *chain) {
	defer close(l.written)
	for range l.wake {
		l.writeQueue(c)
	}
	l.writeQueue(c)
	err := c.seal(time.Now())
	l.closed(c, errors.Join(err, c.file.Close()))
}

func (l *Log) writeQueue(c *chain) {
	failedBefore := c.err != nil
	entries, lost := l.take()
	for _, p := range entries {
		if p.data == nil {
			c.lose(1)
		} else {
			c.add(*p)
		}
	}
	c.lose(lost)
	if c.err != nil && !failedBefore {
		l.logger.Error("failed to write an activity log", "error", c.err)
	}
}
