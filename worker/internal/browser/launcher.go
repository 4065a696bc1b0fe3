package browser

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/sandbox"
)

const (
	markerName     = "SVC_LAUNCH"    // in the environment: a launch's root
	markerSwitch   = "--svc-launch=" // the same on the command line
	defaultUIDBase = 61000
	defaultUIDs    = 1000
	defaultLockDir = "/run/svc-browser"
)

// Options configures a Launcher.
type Options struct {
	Dir string       // stamp the launches; created; other users must be able to reach it when the worker is root
	Log *slog.Logger // discarded when nil

	// A worker that runs as root gives each browser a user id of its own out of
	// [UIDBase, UIDBase+UIDCount), 61000 to 61999 by default. LockDir holds a
	// lock per id, which workers on one machine share.
	UIDBase, UIDCount int
	LockDir           string

	Xvnc           string // the X server's program; "Xvnc" by default
	AllowNoSandbox bool   // go on without Chromium's sandbox where the host denies it

	// UnresponsiveTimeout is how long a browser may leave its control pipe unanswered
	// before it is ended; 0 for ever.
	UnresponsiveTimeout time.Duration

	// DebugUsers may connect to the debugging ports of browsers that have a network
	// of their own, besides root and the worker's own user.
	DebugUsers []int

	// Isolation seals each launch in a room of its own, as far as this host
	// allows; nil starts browsers plainly. Its program must be one that calls
	// sandbox.Main.
	Isolation *sandbox.Options
}

// Launcher starts browsers and owns what they need of the machine.
type Launcher struct {
	opts      Options
	log       *slog.Logger
	starter   *starter
	uids      *uidPool     // nil: browsers run as the worker's own user
	sandboxes *sandboxPool // nil: browsers are started plainly
	report    sandbox.Report
	lock      *os.File

	closeSlots   chan struct{} // one for each browser that was asked to close
	closeTimeout time.Duration

	ctx    context.Context // ends with Close, and launches under way with it
	cancel context.CancelFunc

	mu        sync.Mutex
	closed    bool
	live      map[string]*Browser // by launch id
	noSandbox map[string]bool     // buildDir that run without Chromium's sandbox, by path
	active    sync.WaitGroup      // one per live
}

// NewLauncher prepares a directory for launches and locks it: two launchers
// can't share one. Sweep should follow, before the first Launch.
func NewLauncher(opts Options) (*Launcher, error) {
	opts.setDefaults()
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	opts.Dir = dir
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	var uids *uidPool
	if os.Geteuid() == 0 {
		if err := checkTraversable(dir); err != nil {
			return nil, fmt.Errorf("launcher: %w", err)
		}
		if uids, err = newUIDPool(opts.UIDBase, opts.UIDCount, opts.LockDir); err != nil {
			return nil, fmt.Errorf("launcher: %w", err)
		}
	}
	lock, err := lockFile(filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("launcher: %s is in use by another worker: %w", dir, err)
	}
	l := &Launcher{
		opts: opts, log: opts.Log, starter: newStarter(), uids: uids, lock: lock,
		live: make(map[string]*Browser), noSandbox: make(map[string]bool), report: sandbox.DisabledReport("it was not asked for"),
		closeSlots: make(chan struct{}, closesPerCPU*runtime.NumCPU()), closeTimeout: closeTimeout,
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if opts.Isolation == nil {
		return l, nil
	}
	if l.sandboxes, err = openSandboxPool(l.ctx, opts, l.starter, uids); err != nil {
		l.log.Error("LAUNCHES ARE NOT ISOLATED", "error", err)
		l.report = sandbox.DisabledReport(err.Error())
		return l, nil
	}
	l.report = l.sandboxes.manager.Report()
	return l, nil
}

// hasPrivateFiles reports whether launches have files of their own, which the worker's
// paths do not lead to.
func (l *Launcher) hasPrivateFiles() bool { return l.sandboxes != nil && l.sandboxes.manager.Private() }

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.UIDBase == 0 {
		o.UIDBase = defaultUIDBase
	}
	if o.UIDCount == 0 {
		o.UIDCount = defaultUIDs
	}
	if o.LockDir == "" {
		o.LockDir = defaultLockDir
	}
	if o.Xvnc == "" {
		o.Xvnc = "Xvnc"
	}
}

// Close kills what still runs, waits until it is gone, and ends the launcher.
func (l *Launcher) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for _, b := range l.live {
		if b.ready { // the others see the context end
			b.killNow()
		}
	}
	l.mu.Unlock()
	l.cancel()
	l.active.Wait()
	if l.sandboxes != nil {
		l.sandboxes.close()
	}
	l.starter.close()
	return l.lock.Close()
}

// register registers a browser, or says why it can't be.
func (l *Launcher) register(b *Browser) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrClosed
	case l.live[b.LaunchID] != nil:
		return fmt.Errorf("launch id %s is in use", b.LaunchID)
	}
	l.live[b.LaunchID] = b
	l.active.Add(1)
	return nil
}

// markReady makes an admitted browser one that Close ends; false when Close has
// begun already.
func (l *Launcher) markReady(b *Browser) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.ready = !l.closed
	return b.ready
}

// isReady reports whether a browser's launch is done.
func (l *Launcher) isReady(b *Browser) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return b.ready
}

func (l *Launcher) unregister(b *Browser) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, b.LaunchID)
	l.active.Done()
}
