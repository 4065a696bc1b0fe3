package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/display"
	"github.com/browser-svc/svc/worker/internal/browser/process"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// browserProcess is a browser's main process, or a process that will exec it,
// with its pipes.
type browserProcess struct {
	proc                 *process.Process
	sandbox              *sandbox.Sandbox // nil without isolation
	toWorker, fromWorker *os.File         // control connection
	stderr               *process.Tail
	stopTail             func() // called after the process has died
}

// startBrowserProcess opens the pipes and calls start, which starts the process
// with the other ends as descriptors 3, 4 and 2.
func startBrowserProcess(start func(read, write, stderr *os.File) (*process.Process, error)) (*browserProcess, error) {
	toBrowser, fromWorker, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer toBrowser.Close()
	toWorker, fromBrowser, err := os.Pipe()
	if err != nil {
		fromWorker.Close()
		return nil, err
	}
	defer fromBrowser.Close()
	b := &browserProcess{toWorker: toWorker, fromWorker: fromWorker, stderr: &process.Tail{}}
	stderr, stop, err := b.stderr.Pipe()
	if err != nil {
		b.closePipes()
		return nil, err
	}
	defer stderr.Close()
	b.stopTail = stop
	if b.proc, err = start(toBrowser, fromBrowser, stderr); err != nil {
		b.closePipes()
		stderr.Close()
		stop()
		return nil, err
	}
	return b, nil
}

func (b *browserProcess) closePipes() {
	b.fromWorker.Close()
	b.toWorker.Close()
}

// discard kills a process that has not become a browser.
func (b *browserProcess) discard() {
	b.proc.Kill()
	<-b.proc.Died
	b.closePipes()
	b.stopTail()
	if b.sandbox != nil {
		b.sandbox.Close()
	}
}

// startProcess starts the browser's process, in a sandbox if isolation is on.
func (b *Browser) startProcess(ctx context.Context) error {
	c := buildCommand(&b.spec, b.paths(), b.display, !b.Sandboxed)
	start := b.startWithoutIsolation
	if b.l.sandboxes != nil {
		start = b.startInSandbox
	}
	child, err := start(ctx, c)
	if err != nil {
		return err
	}
	b.ExecutedAt = time.Now().UTC()
	b.proc, b.sandbox, b.stderr, b.stopTail = child.proc, child.sandbox, child.stderr, child.stopTail
	b.conn = cdp.New(child.toWorker, child.fromWorker)
	b.conn.OnCall(b.freezer.hold)
	b.downloads = newDownloads(b)
	b.guard = newGuard(b.conn, b.calls.Handovers(), b.l.log.With("launchId", b.LaunchID), b.killNow)
	b.guard.count, b.guard.blockList, b.guard.secrets = b.spec.CountDenied, b.l.opts.BlockList, b.filled.Values
	b.emul = newEmulator(b.conn, b.l.log.With("launchId", b.LaunchID), b.killNow)
	return nil
}

// startWithoutIsolation starts the build as the launch's user.
func (b *Browser) startWithoutIsolation(ctx context.Context, c command) (*browserProcess, error) {
	if err := b.trustAuthorities(nil); err != nil {
		return nil, err
	}
	if err := b.openDataDir(ctx); err != nil {
		return nil, err
	}
	return startBrowserProcess(func(read, write, stderr *os.File) (*process.Process, error) {
		cmd := exec.Command(b.Build.Path, c.args...) //nolint:noctx // outlives the launch's context
		cmd.Env, cmd.Dir, cmd.Stderr = c.env, b.dirs.home, stderr
		cmd.ExtraFiles = []*os.File{read, write}
		proc, err := b.l.starter.Start(cmd, b.uid)
		if err != nil {
			return nil, b.startError(err)
		}
		return proc, nil
	})
}

// startInSandbox makes the process of a prepared sandbox exec the build.
func (b *Browser) startInSandbox(ctx context.Context, c command) (_ *browserProcess, err error) {
	child, err := b.l.sandboxes.acquire()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			child.discard()
		}
	}()
	order := sandbox.Config{
		UID: b.uid, Proxy: proxyPort(b.spec.ProxyServer), Program: b.Build.Path, Args: c.args, Env: c.env,
		Dir: b.dirs.home, Writable: b.dirs.writable(), Files: b.dirs.files, ReadOnly: b.extensionDirs(), Policy: extensionPolicy(&b.spec),
	}
	if b.paths().ownTimezone {
		order.Timezone = b.spec.TimezoneID
	}
	if b.display != nil {
		order.Display, order.XAuthority = display.SocketPath(b.display.Number), b.dirs.xauth
	}
	if err := child.sandbox.Setup(ctx, order); err != nil {
		return nil, err
	}
	if inside := child.sandbox.Proxy(); inside != nil && b.spec.OnProxyListener != nil {
		b.spec.OnProxyListener(inside)
	}
	if err := b.trustAuthorities(child.sandbox); err != nil {
		return nil, err
	}
	b.dataDir = child.sandbox.Data()
	if err := b.openDataDir(ctx); err != nil {
		return nil, err
	}
	starved := func() {
		b.l.log.Warn("browser reached its memory limit", "launchId", b.LaunchID)
		child.proc.Kill()
	}
	if err := child.sandbox.Exec(ctx, starved); err != nil {
		return nil, b.startError(err)
	}
	if b.display != nil {
		if err := child.sandbox.AddProcess(b.display.PID()); err != nil {
			return nil, fmt.Errorf("display: %w", err)
		}
	}
	return child, nil
}

// proxyPort returns a proxy's port; 0 without a proxy.
func proxyPort(server string) int {
	u, err := url.Parse(server)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port())
	return port
}

// openDataDir opens the data directory, unless it is the sandbox's, and restores
// the saved data.
func (b *Browser) openDataDir(ctx context.Context) (err error) {
	if b.dataDir == nil {
		if b.dataDir, err = os.OpenRoot(b.dirs.data); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	if err := b.restore(ctx); err != nil {
		return err
	}
	return b.writeLocalState()
}

// paths returns the paths as the browser sees them.
func (b *Browser) paths() paths {
	if !b.l.hasPrivateFiles() {
		return b.dirs.hostPaths()
	}
	shared := b.l.sandboxes.manager.SharedMemory()
	files := ""
	if b.l.opts.Files != nil {
		files = sandbox.FilesDir
	}
	return paths{
		files: files,
		root:  b.dirs.root, home: sandbox.HomeDir, tmp: sandbox.TempDir, runtime: sandbox.TempDir, data: sandbox.DataDir,
		xauth: sandbox.XAuthority, extensions: sandbox.ExtensionsDir, smallSharedMemory: shared > 0 && shared < enoughSharedMemory,
		ownTimezone: b.spec.TimezoneID == "" || sandbox.HasTimezone(b.spec.TimezoneID),
	}
}
