package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

// ErrNoSandbox means that this host denies Chromium its sandbox and the
// launcher was not told to do without.
var ErrNoSandbox = errors.New("browser: no usable sandbox")

// Launch starts a browser and returns once it answers on its control pipe and
// its settings hold for its first page. When it fails, or ctx or the spec's
// timeout ends first, nothing of the launch is left behind; the error carries
// the last lines that the browser wrote.
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
	for {
		without := l.noSandbox.Load()
		b, err := l.launch(ctx, spec, without)
		if err == nil {
			return b, nil
		}
		if without || !l.opts.AllowNoSandbox || !errors.Is(err, ErrNoSandbox) {
			return nil, fmt.Errorf("launch %s: %w", spec.LaunchID, err)
		}
		l.log.Warn("THIS HOST DENIES CHROMIUM ITS SANDBOX: browsers run without one from now on, as the configuration allows")
		l.noSandbox.Store(true)
	}
}

func (l *Launcher) launch(ctx context.Context, spec Spec, noSandbox bool) (*Browser, error) {
	b := newBrowser(l, spec)
	b.Sandboxed = !noSandbox
	if err := l.admit(b); err != nil {
		return nil, err
	}
	err := b.start(ctx)
	if err == nil && !l.present(b) {
		err = ErrClosed
	}
	if err != nil {
		b.abandon(err)
		return nil, b.explain(ctx, err)
	}
	l.log.Debug("browser ready", "launchId", b.LaunchID, "version", b.Build.Version, "headless", b.Headless,
		"pid", b.proc.pid(), "took", time.Since(b.StartedAt))
	return b, nil
}

// start brings everything up in order. After an error the caller halts b,
// which takes down whatever there is.
func (b *Browser) start(ctx context.Context) error {
	err := b.prepare(ctx)
	if err == nil {
		err = b.exec()
	}
	if err != nil {
		close(b.done)
		b.clean()
		return err
	}
	go b.supervise()
	if err := b.conn.Call(ctx, "", "Browser.getVersion", nil, nil); err != nil {
		return err
	}
	b.AnsweredAt = time.Now().UTC()
	if err := b.readEndpoint(ctx); err != nil {
		return err
	}
	if b.emul != nil {
		if err := b.emul.begin(ctx); err != nil {
			return err
		}
	}
	return b.openTabs(ctx)
}

// abandon takes down a browser that did not start. One that broke off the
// connection is about to exit by itself, and how it does so says why.
func (b *Browser) abandon(err error) {
	if errors.Is(err, cdp.ErrClosed) {
		select {
		case <-b.done:
		case <-time.After(500 * time.Millisecond):
		}
	}
	b.halt()
	<-b.cleaned
}

// prepare gets what the browser needs before it can run.
func (b *Browser) prepare(ctx context.Context) (err error) {
	if b.l.uids != nil {
		uid, err := b.l.uids.acquire()
		if err != nil {
			return err
		}
		b.uid = uid
	}
	if err := b.dirs.create(b.uid); err != nil {
		return err
	}
	r := record{UID: b.uid}
	if err := b.dirs.writeRecord(r); err != nil {
		return err
	}
	if b.Headless {
		return ctx.Err()
	}
	b.display, err = startDisplay(ctx, b.l.starter, b.l.opts.Xvnc, b.dirs, b.uid, b.spec.physicalScreen())
	if err != nil {
		return err
	}
	r.Display, r.Socket = b.display.number, b.display.socket
	return b.dirs.writeRecord(r)
}

func (b *Browser) exec() error {
	toBrowser, fromWorker, err := os.Pipe()
	if err != nil {
		return err
	}
	defer toBrowser.Close()
	toWorker, fromBrowser, err := os.Pipe()
	if err != nil {
		fromWorker.Close()
		return err
	}
	defer fromBrowser.Close()
	stderr, stop, err := b.stderr.follow()
	if err != nil {
		fromWorker.Close()
		toWorker.Close()
		return err
	}
	defer stderr.Close()
	c := buildCommand(&b.spec, b.dirs, b.display, !b.Sandboxed)
	cmd := exec.Command(b.Build.Path, c.args...) //nolint:noctx // it outlives the launch's context
	cmd.Env, cmd.Dir, cmd.Stderr = c.env, b.dirs.home, stderr
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // its descriptors 3 and 4
	if b.proc, err = b.l.starter.start(cmd, b.uid); err != nil {
		fromWorker.Close()
		toWorker.Close()
		stderr.Close()
		stop()
		return b.startError(err)
	}
	b.ExecutedAt = time.Now().UTC()
	b.stopTail = stop
	b.conn = cdp.New(toWorker, fromWorker)
	if needsEmulation(&b.spec) {
		b.emul = newEmulator(b.conn, b.l.log.With("launchId", b.LaunchID), &b.spec)
	}
	return nil
}

// openTabs opens a tab for each start URL after the first. Chromium takes no
// more than one on the command line of a headless browser.
func (b *Browser) openTabs(ctx context.Context) error {
	for _, u := range b.spec.StartURLs[min(1, len(b.spec.StartURLs)):] {
		params := map[string]any{"url": u, "background": true}
		if err := b.conn.Call(ctx, "", "Target.createTarget", params, nil); err != nil {
			return fmt.Errorf("start URL: %w", err)
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

var endpointPattern = regexp.MustCompile(`^/devtools/browser/[0-9A-Za-z-]{1,64}$`)

// readEndpoint waits for the file in which Chromium writes its debugging port
// and path.
func (b *Browser) readEndpoint(ctx context.Context) error {
	file := filepath.Join(b.dirs.data, "DevToolsActivePort")
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		raw, err := readSmall(file)
		if err == nil {
			port, path, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
			n, err := strconv.ParseUint(port, 10, 16)
			if err == nil && n > 0 && endpointPattern.MatchString(path) {
				b.DebugPort, b.WebSocketPath = int(n), path
				return nil
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("debugging port: %w", err)
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

// explain says why a start failed in the terms of whoever can mend it.
func (b *Browser) explain(ctx context.Context, err error) error {
	said := b.stderr.lastLines(10)
	if strings.Contains(said, "No usable sandbox") || strings.Contains(said, "Running as root without --no-sandbox") {
		return fmt.Errorf("%w: allow unprivileged user namespaces, or install the build's setuid helper", ErrNoSandbox)
	}
	switch {
	case b.l.ctx.Err() != nil:
		err = ErrClosed
	case ctx.Err() != nil:
		err = fmt.Errorf("not ready in time: %w", ctx.Err())
	case b.proc != nil:
		err = fmt.Errorf("%w (%s)", err, b.exit)
	}
	if said == "" {
		return err
	}
	return fmt.Errorf("%w; it wrote:\n%s", err, said)
}

// physicalScreen is the display's size in pixels.
func (s *Spec) physicalScreen() Size {
	if s.emulatesMetrics() && (s.IsMobile || s.Screen == nil) {
		return defaultScreen
	}
	if s.emulatesMetrics() {
		return s.screen()
	}
	return s.screen().scaled(s.scale())
}
