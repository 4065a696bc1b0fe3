package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/display"
	"github.com/browser-svc/svc/worker/internal/browser/process"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/data/files"
	"github.com/browser-svc/svc/worker/internal/data/secretfill"
)

// closeTimeout limits how long a browser with persistent data may take to close
// before it is killed. At most closesPerCPU browsers per processor close at a time.
const (
	closeTimeout = 5 * time.Second
	closesPerCPU = 4
)

// Exit describes how a browser ended.
type Exit struct {
	Code   int            // exit code; -1 when a signal ended it; 0 after hasClosed
	Signal syscall.Signal // 0 when it exited
	Killed bool           // by the worker
	At     time.Time

	OutOfMemory  bool // killed because of the launch's memory: see sandbox.Sandbox.OutOfMemory
	Unresponsive bool // killed by the worker: no answer within Options.UnresponsiveTimeout
	DisplayLost  bool // exited because its display had ended
}

// String describes the exit in a few words.
func (e Exit) String() string {
	switch {
	case e.Unresponsive:
		return "killed by the worker: it did not answer"
	case e.DisplayLost:
		return fmt.Sprintf("exited with code %d: its display had ended", e.Code)
	case e.Killed:
		return "killed by the worker"
	case e.OutOfMemory:
		return "killed at its memory limit"
	case e.Signal != 0:
		return fmt.Sprintf("ended by signal %d, %s", int(e.Signal), e.Signal)
	default:
		return fmt.Sprintf("exited with code %d", e.Code)
	}
}

// Browser is a browser that runs or has ended.
type Browser struct {
	LaunchID      string
	Build         builds.Build
	Headless      bool
	Sandboxed     bool
	StartedAt     time.Time
	ExecutedAt    time.Time // when its program was started
	AnsweredAt    time.Time // when it first answered
	DebugPort     int       // of its debugging server, on 127.0.0.1
	WebSocketPath string    // /devtools/browser/<guid>

	l             *Launcher
	spec          Spec
	debugPort     int // inside the browser's network
	dirs          dirs
	dataDir       *os.Root // the data directory, from the start until the cleanup
	uid           int      // -1: the worker's own
	display       *display.Server
	proc          *process.Process
	sandbox       *sandbox.Sandbox   // nil without isolation
	debugSocket   net.Listener       // of debugListener; nil if the debugging port is the browser's own
	debugListener *debugPortListener // nil until the browser is ready
	drivers       driverState
	channels      channelTargets
	encoders      encoderGroup
	freezer       *freezer
	files         *files.Launch // nil without Options.Files
	downloads     *downloads
	conn          *cdp.Conn
	guard         *guard
	emul          *emulator
	origins       originLog
	filled        secretfill.Fields
	startTabs     []string // the targets of start URLs, of which the first is blank; they do not change after the start
	calls         *intercept.Calls
	stderr        *process.Tail
	stopTail      func()

	ready      bool        // guarded by the launcher
	configured atomic.Bool // a warm browser was configured
	killed     atomic.Bool

	unresponsive atomic.Bool // why it was killed

	exit    Exit
	done    chan struct{} // closed when every process has ended and exit is set
	saveErr error         // error of saving persistent data
	cleaned chan struct{} // closed when all resources are released
}

func newBrowser(l *Launcher, spec Spec) *Browser {
	b := &Browser{
		LaunchID: spec.LaunchID, Build: spec.Build, Headless: spec.Headless, StartedAt: time.Now().UTC(),
		l: l, spec: spec, dirs: newDirs(l.opts.Dir, spec.LaunchID), uid: -1,
		stderr: &process.Tail{}, stopTail: func() {},
		done: make(chan struct{}), cleaned: make(chan struct{}),
	}
	b.freezer = b.newFreezer()
	b.calls = intercept.New(b.interception())
	b.drivers.ctx, b.drivers.cancel = context.WithCancel(context.Background())
	return b
}

// interception returns what package intercept needs.
func (b *Browser) interception() intercept.Options {
	options := intercept.Options{
		OpenProxy: b.spec.OpenContextProxy, CheckFile: b.checkFile,
		HasSettings: func() bool { return b.emul.started() },
		Navigate:    func(targetID, url string) { b.emul.navigateWhenReady(targetID, url) },
		Rules:       func() *netrules.Policy { return b.guard.policy() },

		ExposeProtocol: b.exposeProtocol,
	}
	if fill := b.l.opts.FillSecret; fill != nil {
		options.FillSecret = func(ctx context.Context, targetID string, params json.RawMessage) (any, error) {
			return fill(ctx, b.LaunchID, targetID, params)
		}
	}
	if b.l.opts.Files != nil {
		b.dirs.files = b.l.opts.Files.SharedDir(b.LaunchID)
		options.CaptureDownloads, options.DownloadPath = b.captureDownloads, b.downloadPath()
	}
	if b.spec.Build.Engine == builds.HeadlessShell {
		options.End = func() { b.proc.Kill() } // its pages do not notice the end anyway
	}
	return options
}

// CDP returns the private control connection. It closes when the browser ends.
func (b *Browser) CDP() *cdp.Conn { return b.conn }

// Calls handles some calls of the clients' CDP connections.
func (b *Browser) Calls() *intercept.Calls { return b.calls }

// Files returns the downloads and uploads of the launch; nil without Options.Files.
func (b *Browser) Files() *files.Launch { return b.files }

// Filled returns the fields that were filled with secrets.
func (b *Browser) Filled() *secretfill.Fields { return &b.filled }

// Origins returns the origins of the pages that tabs have shown, at most maxOrigins: the
// latest, in order.
func (b *Browser) Origins() []string { return b.origins.list() }

// Display returns how to reach the browser's display; false when headless.
func (b *Browser) Display() (display.VNC, bool) {
	if b.display == nil {
		return display.VNC{}, false
	}
	return b.display.VNC, true
}

// Done is closed when the browser and all its processes have ended.
func (b *Browser) Done() <-chan struct{} { return b.done }

// Exit returns how the browser ended; the zero Exit before Done is closed.
func (b *Browser) Exit() Exit {
	select {
	case <-b.done:
		return b.exit
	default:
		return Exit{}
	}
}

// Stderr returns the last 64 KiB of the browser's standard error.
func (b *Browser) Stderr() string { return b.stderr.String() }

// UID returns the user id of the browser's processes.
func (b *Browser) UID() int {
	if b.uid < 0 {
		return os.Geteuid()
	}
	return b.uid
}

// PID returns the main process's id.
func (b *Browser) PID() int { return b.proc.PID() }

// Kill ends the browser and waits until its processes, display and directory are
// removed. A browser with persistent data is first asked to write it and to close, for
// at most five seconds and within ctx; any other is killed at once. Kill of an ended
// browser returns nil. If ctx ends first, Kill returns its error and the cleanup
// continues.
func (b *Browser) Kill(ctx context.Context) error {
	select {
	case <-b.done:
	default:
		b.killed.Store(true)
		b.freezer.close()
		if b.spec.Data != nil {
			b.closeGracefully(ctx)
		}
		b.killNow()
	}
	select {
	case <-b.cleaned:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill %s: %w", b.LaunchID, ctx.Err())
	}
}

// closeGracefully asks the browser to close and waits for it.
func (b *Browser) closeGracefully(ctx context.Context) {
	select {
	case b.l.closeSlots <- struct{}{}:
		defer func() { <-b.l.closeSlots }()
	case <-b.proc.Died:
		return
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.l.closeTimeout)
	defer cancel()
	if err := b.flushLocalStorage(ctx); err != nil {
		b.l.log.Warn("failed to flush the local storage", "launchId", b.LaunchID, "error", err)
	}
	err := b.conn.Call(ctx, "", "Browser.close", nil, nil)
	if err != nil && !errors.Is(err, cdp.ErrClosed) { // it closes the connection while it exits
		return
	}
	select {
	case <-b.proc.Died:
	case <-ctx.Done():
	}
}

// hasClosed reports whether the browser ended because a client closed it, however it exited: with
// the GPU process as a thread, it sometimes crashes while it ends by itself.
func (b *Browser) hasClosed() bool {
	return b.spec.gpuIsThread() && b.calls.Closing().Err() != nil
}

// killNow kills the main process without waiting.
func (b *Browser) killNow() {
	if b.proc == nil {
		return
	}
	select {
	case <-b.proc.Died:
	default:
		b.killed.Store(true)
		b.proc.Kill()
	}
}

// supervise waits for the end of the main process and then ends the other
// processes and cleans up.
func (b *Browser) supervise() {
	b.awaitExit()
	b.freezer.close()
	b.exit = Exit{Code: -1, Killed: b.killed.Load(), Unresponsive: b.unresponsive.Load(), At: b.proc.DiedAt}
	switch ws := b.proc.Status(); {
	case b.hasClosed():
		b.exit.Code = 0
	case ws.Signaled():
		b.exit.Signal = ws.Signal()
	default:
		b.exit.Code = ws.ExitStatus()
	}
	b.exit.DisplayLost = b.displayLost()
	b.exit.OutOfMemory = b.sandbox != nil && !b.exit.Killed && b.exit.Signal != 0 && b.sandbox.OutOfMemory()
	_ = b.conn.Close()
	b.guard.wait()
	b.emul.wait()
	b.downloads.wait()
	b.origins.wait()
	b.killTree()
	close(b.done)
	b.l.log.Debug("browser ended", "launchId", b.LaunchID, "exit", b.exit.String())
	b.cleanUp()
}

// killTree ends the remaining processes: WebDriver servers, the display, the group,
// and all other processes of the launch's user. Encoders continue, to complete their files.
func (b *Browser) killTree() {
	b.drivers.stop()
	b.releaseEncoders()
	if b.display != nil {
		b.display.Stop() // first: killing the sandbox would end the display without removing its socket
	}
	if b.sandbox != nil {
		b.sandbox.Kill()
	}
	if b.uid >= 0 && process.HasNone(b.uid) {
		return
	}
	if err := process.KillAll(b.matchProcesses()); err != nil {
		b.l.log.Error("failed to kill browser processes", "launchId", b.LaunchID, "error", err)
	}
}

// cleanUp releases the launch's resources. The user id comes last, when none of
// its processes or files remain.
func (b *Browser) cleanUp() {
	defer close(b.cleaned)
	b.drivers.stop()
	b.stopTail()
	if b.display != nil {
		b.display.Stop()
	}
	b.save()
	if b.dataDir != nil {
		b.dataDir.Close()
	}
	switch {
	case b.debugListener != nil:
		b.debugListener.close()
	case b.debugSocket != nil:
		_ = b.debugSocket.Close()
	}
	if b.sandbox != nil {
		b.sandbox.Close()
	}
	if b.files != nil {
		if err := b.files.Close(); err != nil {
			b.l.log.Error("failed to end the files of a launch", "launchId", b.LaunchID, "error", err)
		}
	}
	if err := b.dirs.remove(); err != nil {
		b.l.log.Error("failed to remove launch directory", "launchId", b.LaunchID, "error", err)
	}
	if b.uid >= 0 {
		b.l.uids.Release(b.uid)
	}
	b.l.unregister(b)
}
