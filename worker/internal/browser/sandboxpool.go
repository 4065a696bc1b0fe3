package browser

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"sync"

	"github.com/browser-svc/svc/worker/internal/browser/process"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// sandboxPool keeps one sandbox with a waiting process ready for the next
// launch.
type sandboxPool struct {
	manager *sandbox.Manager
	starter *process.Starter
	log     *slog.Logger
	work    sync.WaitGroup

	mu       sync.Mutex
	ready    *browserProcess
	creating bool
	closed   bool
}

// openSandboxPool finds out how launches can be isolated on this host.
func openSandboxPool(ctx context.Context, opts Options, s *process.Starter) (*sandboxPool, error) {
	start := func(cmd *exec.Cmd) (func(), error) {
		proc, err := s.Start(cmd, -1)
		if err != nil {
			return nil, err
		}
		return func() {
			proc.Kill()
			<-proc.Died
		}, nil
	}
	options := *opts.Isolation
	options.Log, options.WorkerDir = opts.Log, opts.Dir
	how, err := sandbox.Open(ctx, options, opts.Dir, start)
	if err != nil {
		return nil, err
	}
	return &sandboxPool{manager: how, starter: s, log: opts.Log}, nil
}

// acquire returns the prepared sandbox, or creates one.
func (r *sandboxPool) acquire() (*browserProcess, error) {
	r.mu.Lock()
	ready := r.ready
	r.ready = nil
	r.mu.Unlock()
	if ready == nil {
		return r.create()
	}
	select {
	case <-ready.proc.Died:
		ready.discard()
		return r.create()
	default:
		return ready, nil
	}
}

func (r *sandboxPool) create() (*browserProcess, error) {
	sb, err := r.manager.NewSandbox()
	if err != nil {
		return nil, err
	}
	child, err := startBrowserProcess(func(read, write, stderr *os.File) (*process.Process, error) {
		return r.starter.Start(sb.Command(read, write, stderr), -1)
	})
	if err != nil {
		sb.Close()
		return nil, err
	}
	child.sandbox = sb
	if err := sb.ProcessStarted(child.proc.PID()); err != nil {
		child.discard()
		return nil, err
	}
	return child, nil
}

// refill prepares a sandbox for the next launch in the background.
func (r *sandboxPool) refill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready != nil || r.creating || r.closed {
		return
	}
	r.creating = true
	r.work.Go(func() {
		created, err := r.create()
		if err != nil {
			r.log.Error("failed to prepare a sandbox", "error", err) // the next launch tries again
		}
		r.mu.Lock()
		r.creating, r.ready = false, created // close waits for this function
		r.mu.Unlock()
	})
}

// close discards the prepared sandbox. No launch may be in progress.
func (r *sandboxPool) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.work.Wait()
	if r.ready != nil {
		r.ready.discard()
	}
	r.manager.Close()
}
