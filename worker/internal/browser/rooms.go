package browser

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"sync"

	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// rooms has a room ready, with a process that waits in it, so that a launch does
// not wait for either.
type rooms struct {
	isolation *sandbox.Isolation
	starter   *starter
	uids      *uidPool // nil: all have the worker's own user
	log       *slog.Logger
	work      sync.WaitGroup

	mu     sync.Mutex
	ready  *body
	making bool
	closed bool
}

// openRooms finds out how launches can be isolated here.
func openRooms(ctx context.Context, opts Options, s *starter, uids *uidPool) (*rooms, error) {
	start := func(cmd *exec.Cmd) (func(), error) {
		proc, err := s.start(cmd, -1)
		if err != nil {
			return nil, err
		}
		return func() {
			proc.kill()
			<-proc.died
		}, nil
	}
	options := *opts.Isolation
	options.Log, options.Own = opts.Log, opts.Dir
	how, err := sandbox.Open(ctx, options, opts.Dir, start)
	if err != nil {
		return nil, err
	}
	return &rooms{isolation: how, starter: s, uids: uids, log: opts.Log}, nil
}

// take returns the room that is ready, or a new one.
func (r *rooms) take() (*body, error) {
	r.mu.Lock()
	ready := r.ready
	r.ready = nil
	r.mu.Unlock()
	if ready == nil {
		return r.make()
	}
	select {
	case <-ready.proc.died:
		ready.discard()
		return r.make()
	default:
		return ready, nil
	}
}

func (r *rooms) make() (*body, error) {
	room, err := r.isolation.Room()
	if err != nil {
		return nil, err
	}
	made, err := newBody(func(read, write, stderr *os.File) (*process, error) {
		return r.starter.start(room.Command(read, write, stderr), -1)
	})
	if err != nil {
		room.Close()
		return nil, err
	}
	made.room = room
	if err := room.Started(made.proc.pid()); err != nil {
		made.discard()
		return nil, err
	}
	return made, nil
}

// refill makes a room for the next launch, and finds a user for it, in the
// background.
func (r *rooms) refill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready != nil || r.making || r.closed {
		return
	}
	r.making = true
	r.work.Go(func() {
		if r.uids != nil {
			r.uids.prepare()
		}
		made, err := r.make()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.making = false
		switch {
		case err != nil:
			r.log.Error("no room for the next launch", "error", err) // which tries for itself
		case r.closed:
			made.discard()
		default:
			r.ready = made
		}
	})
}

// close gives up the room that waits. No launch may be under way.
func (r *rooms) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.work.Wait()
	if r.ready != nil {
		r.ready.discard()
	}
	r.isolation.Close()
}
