package browser

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/process"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

const (
	defaultUIDBase = 61000
	defaultUIDs    = 1000
	defaultLockDir = "/run/svc-browser"
)

// Options configures a Launcher.
type Options struct {
	Dir string       // directory of the launches, created if needed; other users must have access if the worker is root
	Log *slog.Logger // discarded when nil

	// A worker that runs as root gives each browser a separate user id from
	// [UIDBase, UIDBase+UIDCount), 61000 to 61999 by default. LockDir holds a
	// lock per id, which workers on one machine share.
	UIDBase, UIDCount int
	LockDir           string

	Xvnc           string // the X server's program; "Xvnc" by default
	AllowNoSandbox bool   // run without Chromium's sandbox if the host denies it

	// UnresponsiveTimeout limits how long a browser may leave its control pipe
	// unanswered before it is killed; 0 is unlimited.
	UnresponsiveTimeout time.Duration

	// FreezeIdle is how long a browser without a connection or a call continues until it
	// is frozen, as far as this host allows; 0: never.
	FreezeIdle time.Duration

	// DebugUsers may connect to the debugging ports of browsers with a separate
	// network, in addition to root and the worker's user.
	DebugUsers []int

	// CACertificates are authorities that all browsers trust in addition to their own.
	CACertificates []*x509.Certificate

	// BlockList names the requests that rules with "ads" deny. Nil: none.
	BlockList *BlockList

	// Files stores the downloads and uploads of launches. Nil: downloads are not captured.
	Files *files.Store

	// FillSecret handles the Svc.fillSecret of clients: see intercept.Options. Nil: there are
	// no secrets.
	FillSecret func(ctx context.Context, launchID, targetID string, params json.RawMessage) (result any, err error)

	// Isolation runs each launch in its own sandbox, as far as this host allows;
	// nil disables isolation. Its program must call sandbox.Main.
	Isolation *sandbox.Options
}

// Launcher starts browsers and owns their resources on the machine.
type Launcher struct {
	opts      Options
	log       *slog.Logger
	starter   *process.Starter
	uids      *process.UIDPool // nil: browsers run as the worker's own user
	sandboxes *sandboxPool     // nil: no isolation
	report    sandbox.Report
	lock      *os.File

	closeSlots   chan struct{} // semaphore of browsers that are closing
	closeTimeout time.Duration

	ctx    context.Context // ends with Close and cancels launches in progress
	cancel context.CancelFunc

	mu        sync.Mutex
	closed    bool
	live      map[string]*Browser // by launch id
	noSandbox map[string]bool     // builds without Chromium's sandbox, by path
	active    sync.WaitGroup      // one per live, and per encoder
}

// NewLauncher creates and locks a directory for launches: two launchers cannot
// share one. Call Sweep before the first Launch.
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
	var uids *process.UIDPool
	if os.Geteuid() == 0 {
		if err := checkTraversable(dir); err != nil {
			return nil, fmt.Errorf("launcher: %w", err)
		}
		if uids, err = process.NewUIDPool(opts.UIDBase, opts.UIDCount, opts.LockDir); err != nil {
			return nil, fmt.Errorf("launcher: %w", err)
		}
	}
	lock, err := process.LockFile(filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("launcher: %s is in use by another worker: %w", dir, err)
	}
	l := &Launcher{
		opts: opts, log: opts.Log, starter: process.NewStarter(), uids: uids, lock: lock,
		live: make(map[string]*Browser), noSandbox: make(map[string]bool), report: sandbox.DisabledReport("isolation is not configured"),
		closeSlots: make(chan struct{}, closesPerCPU*runtime.NumCPU()), closeTimeout: closeTimeout,
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if opts.Isolation == nil {
		return l, nil
	}
	if l.sandboxes, err = openSandboxPool(l.ctx, opts, l.starter); err != nil {
		l.log.Error("failed to set up isolation; launches are not isolated", "error", err)
		l.report = sandbox.DisabledReport(err.Error())
		return l, nil
	}
	l.report = l.sandboxes.manager.Report()
	return l, nil
}

// hasPrivateFiles reports whether launches have private files, which are not at
// the worker's paths.
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

// Close kills all running browsers, waits for their cleanup and closes the
// launcher.
func (l *Launcher) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for _, b := range l.live {
		if b.ready { // launches in progress see the context end
			b.killNow()
		}
	}
	l.mu.Unlock()
	l.cancel()
	l.active.Wait()
	if l.sandboxes != nil {
		l.sandboxes.close()
	}
	l.starter.Close()
	return l.lock.Close()
}

// register adds a browser, or returns why it cannot be launched.
func (l *Launcher) register(b *Browser) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return process.ErrClosed
	case l.live[b.LaunchID] != nil:
		return fmt.Errorf("launch id %s is in use", b.LaunchID)
	}
	l.live[b.LaunchID] = b
	l.active.Add(1)
	return nil
}

// markReady marks a registered browser as launched; false if the launcher is
// closed.
func (l *Launcher) markReady(b *Browser) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.ready = !l.closed
	return b.ready
}

// isReady reports whether a browser's launch has finished.
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
