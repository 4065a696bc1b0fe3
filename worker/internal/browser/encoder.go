package browser

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/process"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

const (
	encoderStartTimeout = 10 * time.Second
	encoderNiceness     = 10
	encoderMemory       = 2 << 30 // bytes of address space
	encoderOutput       = "/proc/self/fd/4"
	encoderLocale       = "LC_ALL=C"
)

// EncoderCommand is a program that reads descriptor 3, which is In, and writes descriptor 4, which is Out. It can also
// open the file of descriptor 4 by its path in /proc/self/fd.
type EncoderCommand struct {
	Program   string
	Args      []string
	In, Out   *os.File
	MaxOutput int64 // size limit of Out, in bytes; 0 is unlimited
}

func (c EncoderCommand) limits() sandbox.Limits {
	return sandbox.Limits{Memory: encoderMemory, File: c.MaxOutput, Niceness: encoderNiceness}
}

// Encoder is a program that encodes pictures, which may come from a hostile page. It runs in a sandbox of its own, as a
// user of its own if the worker is root, and can open no files of the host but its output.
type Encoder struct {
	l        *Launcher
	uid      int // -1: the worker's own
	proc     *process.Process
	sandbox  *sandbox.Sandbox // nil without isolation
	stderr   *process.Tail
	stopTail func()
	done     chan struct{} // closed when its resources are released
}

// encoderGroup contains the running encoders of a browser. They are in its control group until it ends.
type encoderGroup struct {
	mu       sync.Mutex
	ended    bool // the browser has ended
	live     map[*Encoder]bool
	changing sync.WaitGroup // encoders that are being moved into the group
}

// StartEncoder starts an encoder that shares the browser's control group until the browser ends, and then continues. The
// browser is not frozen meanwhile. Processes that the encoder has started end with the browser. Error: ErrClosed.
func (b *Browser) StartEncoder(ctx context.Context, c EncoderCommand) (*Encoder, error) {
	release := b.Hold()
	e, err := b.l.startEncoder(ctx, c)
	if err != nil {
		release()
		return nil, err
	}
	if err := b.encoders.add(e, b.sandbox); err != nil {
		go e.run(release)
		e.Kill()
		return nil, fmt.Errorf("start %s: %w", c.Program, err)
	}
	go e.run(func() {
		b.encoders.remove(e)
		release()
	})
	return e, nil
}

// StartEncoder starts an encoder that belongs to no browser. Error: ErrClosed.
func (l *Launcher) StartEncoder(ctx context.Context, c EncoderCommand) (*Encoder, error) {
	e, err := l.startEncoder(ctx, c)
	if err != nil {
		return nil, err
	}
	go e.run(func() {})
	return e, nil
}

// startEncoder starts an encoder. The caller must call run unless there is an error.
func (l *Launcher) startEncoder(ctx context.Context, c EncoderCommand) (_ *Encoder, err error) {
	if !l.beginEncoder() {
		return nil, process.ErrClosed
	}
	e := &Encoder{l: l, uid: -1, stderr: &process.Tail{}, stopTail: func() {}, done: make(chan struct{})}
	defer func() {
		if err != nil {
			e.release()
			err = fmt.Errorf("start %s: %w", c.Program, err)
		}
	}()
	if l.uids != nil {
		if e.uid, err = l.uids.Acquire(); err != nil {
			e.uid = -1
			return nil, err
		}
		if err := c.Out.Chown(e.uid, e.uid); err != nil {
			return nil, err
		}
	}
	stderr, stop, err := e.stderr.Pipe()
	if err != nil {
		return nil, err
	}
	e.stopTail = stop
	defer stderr.Close()
	ctx, cancel := context.WithTimeout(ctx, encoderStartTimeout)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	start := e.startWithoutIsolation
	if l.sandboxes != nil {
		start = e.startInSandbox
	}
	if err := start(ctx, c, stderr); err != nil {
		return nil, err
	}
	return e, nil
}

// beginEncoder returns whether an encoder can be started. Its release ends it.
func (l *Launcher) beginEncoder() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.active.Add(1)
	return true
}

func (e *Encoder) startInSandbox(ctx context.Context, c EncoderCommand, stderr *os.File) (err error) {
	program, err := filepath.EvalSymlinks(c.Program) // only its directory is visible in the sandbox
	if err != nil {
		return err
	}
	if e.sandbox, err = e.l.sandboxes.manager.NewOfflineSandbox(); err != nil {
		return err
	}
	if e.proc, err = e.l.starter.Start(e.sandbox.Command(c.In, c.Out, stderr), -1); err != nil {
		return err
	}
	if err := e.sandbox.ProcessStarted(e.proc.PID()); err != nil {
		return err
	}
	if err := e.sandbox.Setup(ctx, sandbox.Config{
		UID: e.uid, Program: program, Args: c.Args, Env: []string{encoderLocale}, Dir: "/", Writable: []string{encoderOutput}, ReadOnly: librariesOf(program),
		Limits: c.limits(),
	}); err != nil {
		return err
	}
	return e.sandbox.Exec(ctx, e.proc.Kill)
}

func (e *Encoder) startWithoutIsolation(_ context.Context, c EncoderCommand, stderr *os.File) (err error) {
	cmd := exec.Command(c.Program, c.Args...) //nolint:noctx // outlives the context of its start
	cmd.Env, cmd.Dir, cmd.Stderr, cmd.ExtraFiles = []string{encoderLocale}, "/", stderr, []*os.File{c.In, c.Out}
	if e.proc, err = e.l.starter.Start(cmd, e.uid); err != nil {
		return err
	}
	c.limits().Apply(e.proc.PID())
	return nil
}

// librariesOf returns the directory of the libraries of a program that was built on this host, which browsers do not see.
func librariesOf(program string) []sandbox.Mount {
	const local, libraries = "/usr/local/", "/usr/local/lib"
	if _, err := os.Stat(libraries); err != nil || !strings.HasPrefix(program, local) {
		return nil
	}
	return []sandbox.Mount{{From: libraries, To: libraries}}
}

// run waits for the end of the encoder, or of the launcher.
func (e *Encoder) run(ended func()) {
	defer context.AfterFunc(e.l.ctx, e.Kill)()
	<-e.proc.Died
	ended()
	e.release()
}

// release ends the process and releases the resources.
func (e *Encoder) release() {
	defer e.l.active.Done()
	defer close(e.done)
	if e.proc != nil {
		e.proc.Kill()
		<-e.proc.Died
	}
	e.stopTail()
	if e.sandbox != nil {
		e.sandbox.Kill()
		e.sandbox.Close()
	}
	if e.uid >= 0 {
		if err := process.KillAll(process.ByUID(e.uid)); err != nil {
			e.l.log.Error("failed to kill processes of an encoder", "error", err)
		}
		e.l.uids.Release(e.uid)
	}
}

// Done is closed when the encoder has ended.
func (e *Encoder) Done() <-chan struct{} { return e.done }

// Kill ends the encoder.
func (e *Encoder) Kill() { e.proc.Kill() }

// Err returns why the encoder has failed, with its last output, after Done; nil if it has not.
func (e *Encoder) Err() error {
	if e.proc.State().Success() {
		return nil
	}
	return fmt.Errorf("%s: %s", e.proc.State(), e.stderr.LastLines(10))
}

// CPU returns the processor time of the encoder, after Done.
func (e *Encoder) CPU() time.Duration {
	return e.proc.State().UserTime() + e.proc.State().SystemTime()
}

// add moves an encoder into the control group of a browser, unless that has ended.
func (g *encoderGroup) add(e *Encoder, sb *sandbox.Sandbox) error {
	g.mu.Lock()
	if g.ended || sb == nil {
		g.mu.Unlock()
		return nil
	}
	if g.live == nil {
		g.live = map[*Encoder]bool{}
	}
	g.live[e] = true
	g.changing.Add(1)
	g.mu.Unlock()
	defer g.changing.Done()
	return e.proc.MoveTo(sb)
}

func (g *encoderGroup) remove(e *Encoder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, e)
}

// releaseEncoders moves the encoders out of the control group, because its processes are killed with the browser.
func (b *Browser) releaseEncoders() {
	g := &b.encoders
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	g.changing.Wait()
	for _, e := range g.list() {
		if err := e.proc.MoveTo(e.sandbox); err != nil {
			b.l.log.Error("failed to keep an encoder", "launchId", b.LaunchID, "error", err)
		}
	}
}

func (g *encoderGroup) list() []*Encoder {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.live))
}
