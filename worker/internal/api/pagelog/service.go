package pagelog

import (
	"context"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/auth/access"
)

const (
	startTimeout = 10 * time.Second
	maxMessage   = 64 << 20 // bytes of a CDP message
)

// Service owns the logs of all running browsers.
type Service struct {
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	logs map[string]*collection // by launch id
}

// collection is the log of a running browser.
type collection struct {
	log     *Log
	started chan struct{} // closed when the log has the messages of the open pages, or err is set
	err     error
}

// New returns a Service. The caller must call Close.
func New() *Service {
	s := &Service{logs: map[string]*collection{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends all collecting and waits for it.
func (s *Service) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

// Start starts to collect the log of a browser, in the background.
func (s *Service) Start(browser access.Browser) { s.collection(browser) }

// Open returns the log of a browser, which has the messages of the open pages. It
// starts to collect them if necessary.
func (s *Service) Open(ctx context.Context, browser access.Browser) (*Log, error) {
	c := s.collection(browser)
	select {
	case <-c.started:
		return c.log, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// collection returns the collection of a browser, and starts one if there is none.
func (s *Service) collection(browser access.Browser) *collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.logs[browser.LaunchID]; c != nil {
		return c
	}
	c := &collection{log: newLog(), started: make(chan struct{})}
	if err := s.ctx.Err(); err != nil {
		c.err = err
		close(c.started)
		return c
	}
	s.logs[browser.LaunchID] = c
	s.running.Go(func() { s.run(browser, c) })
	return c
}

// run collects until the browser, the connection or the Service ends.
func (s *Service) run(browser access.Browser, c *collection) {
	defer func() {
		s.mu.Lock()
		delete(s.logs, browser.LaunchID)
		s.mu.Unlock()
		c.log.end()
	}()
	ctx, cancel := context.WithTimeout(s.ctx, startTimeout)
	defer cancel()
	conn, err := browser.ObserveCDP(ctx, maxMessage)
	if err != nil {
		c.err = err
		close(c.started)
		return
	}
	collector, err := collect(ctx, conn, c.log)
	c.err = err
	close(c.started)
	if err == nil {
		select {
		case <-conn.Done():
		case <-browser.Done:
		case <-s.ctx.Done():
		}
	}
	_ = conn.Close()
	collector.wait()
}
