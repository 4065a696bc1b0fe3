package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// body is a browser's main process, or one that is to become it, with the lines
// that lead to it.
type body struct {
	proc                 *process
	room                 *sandbox.Room // that it is in; nil for none
	toWorker, fromWorker *os.File      // of its control connection
	stderr               *tail
	stopTail             func() // for when it has died
}

// newBody opens the lines and has start start the process at their other ends,
// which it is to have as descriptors 3, 4 and 2.
func newBody(start func(read, write, stderr *os.File) (*process, error)) (*body, error) {
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
	b := &body{toWorker: toWorker, fromWorker: fromWorker, stderr: &tail{}}
	stderr, stop, err := b.stderr.follow()
	if err != nil {
		b.closeLines()
		return nil, err
	}
	defer stderr.Close()
	b.stopTail = stop
	if b.proc, err = start(toBrowser, fromBrowser, stderr); err != nil {
		b.closeLines()
		stderr.Close()
		stop()
		return nil, err
	}
	return b, nil
}

func (b *body) closeLines() {
	b.fromWorker.Close()
	b.toWorker.Close()
}

// discard ends a process that has not become a browser.
func (b *body) discard() {
	b.proc.kill()
	<-b.proc.died
	b.closeLines()
	b.stopTail()
	if b.room != nil {
		b.room.Close()
	}
}

// exec starts the browser's process, in a room of its own where there are rooms.
func (b *Browser) exec(ctx context.Context) error {
	c := buildCommand(&b.spec, b.place(), b.display, !b.Sandboxed)
	start := b.startPlainly
	if b.l.rooms != nil {
		start = b.startSealed
	}
	made, err := start(ctx, c)
	if err != nil {
		return err
	}
	b.ExecutedAt = time.Now().UTC()
	b.proc, b.room, b.stderr, b.stopTail = made.proc, made.room, made.stderr, made.stopTail
	b.conn = cdp.New(made.toWorker, made.fromWorker)
	b.emul = newEmulator(b.conn, b.l.log.With("launchId", b.LaunchID))
	return nil
}

// startPlainly starts the build under the launch's user, and that is all.
func (b *Browser) startPlainly(ctx context.Context, c command) (*body, error) {
	if err := b.openFiles(ctx); err != nil {
		return nil, err
	}
	return newBody(func(read, write, stderr *os.File) (*process, error) {
		cmd := exec.Command(b.Build.Path, c.args...) //nolint:noctx // it outlives the launch's context
		cmd.Env, cmd.Dir, cmd.Stderr = c.env, b.dirs.home, stderr
		cmd.ExtraFiles = []*os.File{read, write}
		proc, err := b.l.starter.start(cmd, b.uid)
		if err != nil {
			return nil, b.startError(err)
		}
		return proc, nil
	})
}

// startSealed has the process of a room become the build.
func (b *Browser) startSealed(ctx context.Context, c command) (_ *body, err error) {
	made, err := b.l.rooms.take()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			made.discard()
		}
	}()
	order := sandbox.Launch{
		UID: b.uid, Proxy: proxyPort(b.spec.ProxyServer), Program: b.Build.Path, Args: c.args, Env: c.env, Dir: b.dirs.home,
	}
	if b.place().hasZone {
		order.Zone = b.spec.TimezoneID
	}
	if b.display != nil {
		order.Display, order.Cookie = socketPath(b.display.number), b.dirs.xauth
	}
	if err := made.room.Furnish(ctx, order); err != nil {
		return nil, err
	}
	if inside := made.room.Proxy(); inside != nil && b.spec.ProxyMoved != nil {
		b.spec.ProxyMoved(inside)
	}
	b.files = made.room.Data()
	if err := b.openFiles(ctx); err != nil {
		return nil, err
	}
	starved := func() {
		b.l.log.Warn("browser out of memory", "launchId", b.LaunchID)
		made.proc.kill()
	}
	if err := made.room.Enter(ctx, starved); err != nil {
		return nil, b.startError(err)
	}
	if b.display != nil {
		if err := made.room.Adopt(b.display.proc.pid()); err != nil {
			return nil, fmt.Errorf("display: %w", err)
		}
	}
	return made, nil
}

// proxyPort is where a proxy listens; 0 for none.
func proxyPort(server string) int {
	u, err := url.Parse(server)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port())
	return port
}

// openFiles opens the data directory, unless the room has, and fills it.
func (b *Browser) openFiles(ctx context.Context) (err error) {
	if b.files == nil {
		if b.files, err = os.OpenRoot(b.dirs.data); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	if err := b.restore(ctx); err != nil {
		return err
	}
	return b.widen()
}

// place is where the browser finds what is its own.
func (b *Browser) place() place {
	if !b.l.private() {
		return b.dirs.outside()
	}
	shared := b.l.rooms.isolation.SharedMemory()
	return place{
		root: b.dirs.root, home: sandbox.Home, tmp: sandbox.Temp, runtime: sandbox.Temp, data: sandbox.Data,
		xauth: sandbox.Cookie, smallMemory: shared > 0 && shared < enoughSharedMemory,
		hasZone: b.spec.TimezoneID == "" || sandbox.HasZone(b.spec.TimezoneID),
	}
}
