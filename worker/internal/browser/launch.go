package browser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/display"
	"github.com/browser-svc/svc/worker/internal/browser/process"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// ErrNoSandbox means that this host denies Chromium its sandbox and
// AllowNoSandbox is not set.
var ErrNoSandbox = errors.New("browser: no usable sandbox")

// Launch starts a browser and returns once it answers on its control pipe and
// its settings hold for its first page. If it fails, or ctx or the spec's
// timeout ends first, all resources of the launch are released; the error
// contains the last lines of the browser's output.
func (l *Launcher) Launch(ctx context.Context, spec Spec) (*Browser, error) {
	if err := spec.validate(); err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	if spec.Timeout <= 0 {
		spec.Timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	if l.sandboxes != nil {
		defer l.sandboxes.refill() // in the background, after the launch
	}
	noSandbox := l.runsWithoutSandbox(spec.Build)
	b, err := l.launch(ctx, spec, noSandbox)
	if errors.Is(err, ErrNoSandbox) && !noSandbox && l.opts.AllowNoSandbox && l.confirmNoSandbox(ctx, spec.Build) {
		b, err = l.launch(ctx, spec, true)
	}
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", spec.LaunchID, err)
	}
	return b, nil
}

func (l *Launcher) launch(ctx context.Context, spec Spec, noSandbox bool) (*Browser, error) {
	b := newBrowser(l, spec)
	b.Sandboxed = !noSandbox
	if err := l.register(b); err != nil {
		return nil, err
	}
	err := b.start(ctx)
	if err == nil && !l.markReady(b) {
		err = process.ErrClosed
	}
	if err == nil && !spec.Warm {
		b.startFreezing()
	}
	if err != nil {
		b.abort(err)
		return nil, b.describeFailure(ctx, err)
	}
	l.log.Debug("browser ready", "launchId", b.LaunchID, "version", b.Build.Version, "headless", b.Headless,
		"pid", b.proc.PID(), "took", time.Since(b.StartedAt))
	return b, nil
}

// start starts the browser. After an error the caller must call abort.
func (b *Browser) start(ctx context.Context) error {
	err := b.prepare(ctx)
	if err == nil {
		err = b.startProcess(ctx)
	}
	if err != nil {
		close(b.done)
		b.cleanUp()
		return err
	}
	go b.supervise()
	if err := b.guard.start(ctx, &b.spec); err != nil {
		return fmt.Errorf("rules of the launch: %w", err)
	}
	captured := b.downloads.start(ctx)
	if err := b.conn.Call(ctx, "", "Browser.getVersion", nil, nil); err != nil {
		return err
	}
	b.AnsweredAt = time.Now().UTC()
	if err := b.readEndpoint(ctx); err != nil {
		return err
	}
	if err := captured(ctx); err != nil {
		return fmt.Errorf("capture downloads: %w", err)
	}
	if err := b.checkExtensions(ctx); err != nil {
		return err
	}
	b.origins.start(b.conn)
	if b.spec.Warm {
		return b.awaitFirstPage(ctx)
	}
	if b.spec.defersFirstPage() { // the first tab is blank
		if err := b.prepareFirstPage(ctx, &b.spec); err != nil {
			return err
		}
	}
	return b.applySettings(ctx, &b.spec)
}

// abort ends a browser that did not start. If it closed the connection, it is
// about to exit, and its exit status shows the cause.
func (b *Browser) abort(err error) {
	if errors.Is(err, cdp.ErrClosed) {
		select {
		case <-b.done:
		case <-time.After(500 * time.Millisecond):
		}
	}
	b.killNow()
	<-b.cleaned
}

// prepare acquires the resources that the browser needs to run.
func (b *Browser) prepare(ctx context.Context) (err error) {
	if b.l.report.On(sandbox.NetworkNamespace) && proxyPort(b.spec.ProxyServer) != 0 {
		// Otherwise another program could take the port while Chromium starts.
		if b.debugSocket, err = listenDebugPort(b.spec.DebugPort); err != nil {
			return err
		}
	}
	if b.l.uids != nil {
		uid, err := b.l.uids.Acquire()
		if err != nil {
			return err
		}
		b.uid = uid
	}
	if err := b.createFiles(); err != nil {
		return err
	}
	if err := b.dirs.create(b.uid, b.l.hasPrivateFiles() && b.Headless); err != nil {
		return err
	}
	r := record{UID: b.uid}
	if !b.Headless {
		r.DisplaySince = time.Now()
	}
	if err := b.dirs.writeRecord(r); err != nil {
		return err
	}
	if err := b.copyExtensions(); err != nil {
		return err
	}
	if b.Headless {
		return ctx.Err()
	}
	b.display, err = display.Start(ctx, b.l.starter, display.Options{
		Program: b.l.opts.Xvnc, Size: b.spec.physicalScreen(), UID: b.uid, Env: baseEnv(b.dirs.hostPaths()), Dir: b.dirs.home,
		XAuthority: b.dirs.xauth, Socket: b.dirs.vncSocket, Passwords: b.dirs.vncAuth,
	})
	if err != nil {
		return err
	}
	r.Display, r.Socket = b.display.Number, b.display.Socket
	return b.dirs.writeRecord(r)
}

// applySettings applies the settings that the protocol makes and opens a tab for
// each start URL after the first: a headless Chromium accepts only one on its
// command line.
func (b *Browser) applySettings(ctx context.Context, s *Spec) error {
	emulates := needsEmulation(s)
	if emulates {
		if err := b.emul.start(ctx, s); err != nil {
			return err
		}
	}
	if len(s.StartURLs) > 0 && s.StartURLs[0] == "about:blank" {
		if err := b.findStartTab(ctx); err != nil {
			return err
		}
	}
	for _, u := range s.StartURLs[min(1, len(s.StartURLs)):] {
		params := map[string]any{"url": u, "background": true}
		if emulates {
			params["url"] = "about:blank"
		}
		var target struct{ TargetID string }
		if err := b.conn.Call(ctx, "", "Target.createTarget", params, &target); err != nil {
			return fmt.Errorf("start URL: %w", err)
		}
		b.startTabs = append(b.startTabs, target.TargetID)
		if emulates {
			b.emul.navigateWhenReady(target.TargetID, u)
		}
	}
	return nil
}

func (b *Browser) startError(err error) error {
	if b.uid >= 0 && errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("start %s as user %d (the worker needs CAP_SETUID and CAP_SETGID, and the program must be open to others): %w",
			b.Build.Path, b.uid, err)
	}
	return fmt.Errorf("start %s: %w", b.Build.Path, err)
}

// endpointPattern matches Chromium's message about its debugging server.
var endpointPattern = lazy.Regexp(`(?m)^DevTools listening on ws://127\.0\.0\.1:(\d{1,5})(/devtools/browser/[0-9A-Za-z-]{1,64})\r?$`)

// readEndpoint waits until Chromium prints its debugging port and path. Chromium
// writes them to a file only if it chose the port itself.
func (b *Browser) readEndpoint(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		if match := endpointPattern().FindStringSubmatch(b.stderr.String()); match != nil {
			port, err := strconv.ParseUint(match[1], 10, 16)
			if err != nil || b.spec.DebugPort != 0 && int(port) != b.spec.DebugPort {
				return fmt.Errorf("debugging port: Chromium listens on port %s instead", match[1])
			}
			b.WebSocketPath = match[2]
			b.openDebugPort(int(port))
			return nil
		}
		select {
		case <-time.After(wait):
		case <-b.done:
			return errors.New("debugging port: the browser has exited")
		case <-ctx.Done():
			return fmt.Errorf("debugging port: %w", ctx.Err())
		}
	}
}

// openDebugPort makes the debugging port available on the host.
func (b *Browser) openDebugPort(port int) {
	b.DebugPort, b.debugPort = port, port
	if b.debugSocket == nil {
		return
	}
	users := append([]int{0, os.Geteuid()}, b.l.opts.DebugUsers...)
	b.debugListener = newDebugPortListener(b.debugSocket, users, b.Dial, b.calls, b.l.log.With("launchId", b.LaunchID))
	b.debugListener.observed = true
	b.debugListener.serve()
	b.DebugPort = b.debugListener.port()
}

// WatchDebugPort calls watch for each client of the debugging port from now on: with its
// connection, or with nil for the time of a request. It is not called for a browser without
// a separate network, whose port is its own.
func (b *Browser) WatchDebugPort(watch func(net.Conn) (stop func())) {
	if b.debugListener != nil {
		b.debugListener.watch.Store(&watch)
	}
}

// hasOwnNetwork reports whether the browser has a separate network.
func (b *Browser) hasOwnNetwork() bool { return b.sandbox != nil && b.sandbox.Proxy() != nil }

// Dial connects to the browser's debugging server, in its network. The browser is not
// frozen until the connection is closed.
func (b *Browser) Dial(ctx context.Context) (net.Conn, error) { return b.dial(ctx, b.Hold()) }

// DialPassive is Dial for a connection on which the worker only listens: the browser may
// be frozen meanwhile.
func (b *Browser) DialPassive(ctx context.Context) (net.Conn, error) {
	defer b.Hold()()
	return b.dial(ctx, nil)
}

// dial calls closed, unless it is nil, when the connection is closed or after an error.
func (b *Browser) dial(ctx context.Context, closed func()) (net.Conn, error) {
	if b.hasOwnNetwork() {
		conn, err := b.sandbox.Dial(b.debugPort, closed)
		if err != nil && closed != nil {
			closed()
		}
		return conn, err
	}
	if closed != nil {
		closed() // such a browser is never frozen
	}
	return new(net.Dialer).DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(b.debugPort)))
}

// describeFailure adds the cause of a failed start and how to fix it, where
// known.
func (b *Browser) describeFailure(ctx context.Context, err error) error {
	output := b.stderr.LastLines(10)
	if b.exitedEarly() && (strings.Contains(output, "No usable sandbox") || strings.Contains(output, "Running as root without --no-sandbox")) {
		return fmt.Errorf("%w: allow unprivileged user namespaces; /fleet/status names the setting", ErrNoSandbox)
	}
	switch {
	case b.l.ctx.Err() != nil:
		err = process.ErrClosed
	case ctx.Err() != nil:
		err = fmt.Errorf("not ready in time: %w", ctx.Err())
	case b.proc != nil:
		err = fmt.Errorf("%w (%s)", err, b.exit)
	}
	if output == "" {
		return err
	}
	return fmt.Errorf("%w; last output:\n%s", err, output)
}

// exitedEarly reports whether the browser exited by itself before any page could
// influence its output.
func (b *Browser) exitedEarly() bool { return b.proc != nil && !b.exit.Killed && b.AnsweredAt.IsZero() }

// physicalScreen returns the display's size in pixels.
func (s *Spec) physicalScreen() settings.Size {
	size, scale := s.window()
	return scaled(size, scale)
}
