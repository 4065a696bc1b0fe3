package interaction

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

// Watchers watch each browser at most once, for all followers together. The zero value is
// ready for use.
type Watchers struct {
	mu       sync.Mutex
	browsers map[string]*sharedWatcher
}

// Follower gets what users do.
type Follower struct {
	Ready func()                        // called when the browser is watched; nil: no call
	Begin func(Kind) (add func(Action)) // called as by Watch, but neither is called after Follow has returned
}

// sharedWatcher is a Watch with followers.
type sharedWatcher struct {
	cancel    context.CancelFunc
	connected chan struct{}
	ended     chan struct{} // closed when err is set
	err       error

	mu        sync.RWMutex // held for reading while functions of followers are called
	followers map[*Follower]bool
}

// Follow follows a browser until ctx or the connection ends. The first follower opens the
// connection, the last one closes it.
func (w *Watchers) Follow(ctx context.Context, browser string, connect func(context.Context) (*cdp.Conn, error), f Follower) error {
	s := w.join(browser, connect, &f)
	defer w.leave(browser, s, &f)
	select {
	case <-s.connected:
		if f.Ready != nil {
			f.Ready()
		}
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join adds a follower to the watcher of a browser, which it starts if there is none.
func (w *Watchers) join(browser string, connect func(context.Context) (*cdp.Conn, error), f *Follower) *sharedWatcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.browsers[browser]
	if s == nil {
		s = &sharedWatcher{connected: make(chan struct{}), ended: make(chan struct{}), followers: map[*Follower]bool{}}
		var ctx context.Context
		ctx, s.cancel = context.WithCancel(context.Background())
		if w.browsers == nil {
			w.browsers = map[string]*sharedWatcher{}
		}
		w.browsers[browser] = s
		go func() {
			defer close(s.ended)
			s.err = s.watch(ctx, connect)
		}()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers[f] = true
	return s
}

// leave removes a follower. The last one ends the watcher and waits for its end; after an
// end by itself, the first one lets another watcher start.
func (w *Watchers) leave(browser string, s *sharedWatcher, f *Follower) {
	w.mu.Lock()
	s.mu.Lock()
	delete(s.followers, f)
	last := len(s.followers) == 0
	s.mu.Unlock()
	if w.browsers[browser] == s && (last || s.hasEnded()) {
		delete(w.browsers, browser)
	}
	w.mu.Unlock()
	if last {
		s.cancel()
		<-s.ended
	}
}

func (s *sharedWatcher) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

func (s *sharedWatcher) watch(ctx context.Context, connect func(context.Context) (*cdp.Conn, error)) error {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	close(s.connected)
	return Watch(ctx, conn, rand.Text(), s.begin)
}

// begin begins an action of all followers.
func (s *sharedWatcher) begin(kind Kind) (add func(Action)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	adds := map[*Follower]func(Action){}
	for f := range s.followers {
		adds[f] = f.Begin(kind)
	}
	return func(a Action) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		for f, add := range adds {
			if s.followers[f] {
				add(a)
			}
		}
	}
}
