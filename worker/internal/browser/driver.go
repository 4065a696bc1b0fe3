package browser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

const (
	driverPort         = 9515 // of the WebDriver server, in its own network
	driverStartTimeout = 30 * time.Second
)

// DriverBrowser is the address of the browser's debugging server as its WebDriver
// server sees it.
const DriverBrowser = "127.0.0.1:9222"

// DriverAddress is the address of a server in its own network.
const DriverAddress = "127.0.0.1:9515"

// ErrNoDriverNetwork means that launches on this host have no network of their own,
// without which every user of the host could use a WebDriver server.
var ErrNoDriverNetwork = errors.New("browser: launches have no separate network")

// ErrEnded means that the browser has ended.
var ErrEnded = errors.New("browser: the browser has ended")

// SupportsDrivers reports whether StartDriver is possible on this host.
func (l *Launcher) SupportsDrivers() bool { return l.report.On(sandbox.NetworkNamespace) }

// Driver is a server of a client protocol for one browser: of WebDriver, or Playwright's.
// It runs in a sandbox of its own as the browser's user, and reaches nothing but the
// browser's debugging server.
type Driver struct {
	b      *Browser
	child  *browserProcess
	egress bool // it also reaches what the browser reaches, through the same proxy
	done   chan struct{}
}

// driverState orders the start of WebDriver servers and the end of their browser.
type driverState struct {
	ctx    context.Context // ends with the browser
	cancel context.CancelFunc

	mu   sync.Mutex     // orders begin and stop
	work sync.WaitGroup // servers, and pages that have the protocol
}

// begin returns whether a server, or a page, can be connected, which the caller must end
// with work.Done.
func (s *driverState) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Add(1)
	return true
}

// stop ends all servers and pages' connections, and waits for them.
func (s *driverState) stop() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.work.Wait()
}

// StartDriver starts a WebDriver server, chromedriver at the given path, and returns
// when it accepts connections. It ends with the browser. Errors: ErrEnded,
// ErrNoDriverNetwork.
func (b *Browser) StartDriver(ctx context.Context, program string) (*Driver, error) {
	return b.startDriver(ctx, false, sandbox.Config{
		Program: program, Args: []string{"--port=" + strconv.Itoa(driverPort)}, Env: baseEnv(b.paths()), Files: b.dirs.files,
	})
}

// startDriver starts a server and returns when it accepts connections.
func (b *Browser) startDriver(ctx context.Context, egress bool, config sandbox.Config) (*Driver, error) {
	if !b.hasOwnNetwork() {
		return nil, ErrNoDriverNetwork
	}
	if !b.drivers.begin() {
		return nil, ErrEnded
	}
	ctx, cancel := context.WithTimeout(ctx, driverStartTimeout)
	defer cancel()
	defer context.AfterFunc(b.drivers.ctx, cancel)()
	d, err := b.startDriverProcess(ctx, config)
	if err != nil {
		b.drivers.work.Done()
		return nil, fmt.Errorf("start %s: %w", config.Program, err)
	}
	d.egress = egress
	go d.run()
	if err := d.awaitReady(ctx); err != nil {
		d.Close()
		return nil, fmt.Errorf("start %s: %w; last output:\n%s", config.Program, err, d.child.stderr.LastLines(10))
	}
	return d, nil
}

func (b *Browser) startDriverProcess(ctx context.Context, config sandbox.Config) (*Driver, error) {
	child, err := b.l.sandboxes.acquire()
	if err != nil {
		return nil, err
	}
	defer b.l.sandboxes.refill()
	config.UID, config.Proxy, config.Dir, config.Writable = b.uid, proxyPort("//"+DriverBrowser), b.dirs.home, b.dirs.writable()
	if err = child.sandbox.Setup(ctx, config); err == nil {
		err = child.sandbox.Exec(ctx, child.proc.Kill)
	}
	if err != nil {
		child.discard()
		return nil, err
	}
	return &Driver{b: b, child: child, done: make(chan struct{})}, nil
}

// run connects the server with the browser until either has ended. The worker handles
// the same calls of it as of other clients.
func (d *Driver) run() {
	defer d.b.drivers.work.Done()
	defer close(d.done)
	listener := d.child.sandbox.Proxy()
	if d.egress {
		listener = newEgressListener(listener, d.b)
	}
	port := newDebugPortListener(listener, nil, d.b.Dial, d.b.calls, d.b.l.log.With("launchId", d.b.LaunchID))
	port.userOf = nil
	port.observed = d.egress // Playwright's server sends what its client does; the commands of WebDriver are observed before chromedriver
	port.serve()
	select {
	case <-d.child.proc.Died:
	case <-d.b.drivers.ctx.Done():
	}
	port.close()
	d.child.sandbox.Kill()
	d.child.discard()
}

// awaitReady waits until the server accepts connections.
func (d *Driver) awaitReady(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		conn, err := d.Dial(ctx)
		if err == nil {
			return conn.Close()
		}
		if !errors.Is(err, unix.ECONNREFUSED) && !d.hasExited() { // its network ends with it
			return err
		}
		select {
		case <-time.After(wait):
		case <-d.child.proc.Died:
			return errors.New("it has exited")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *Driver) hasExited() bool {
	select {
	case <-d.child.proc.Died:
		return true
	default:
		return false
	}
}

// Dial connects to the server.
func (d *Driver) Dial(context.Context) (net.Conn, error) {
	return d.child.sandbox.Dial(driverPort, nil)
}

// Done is closed when the server has ended.
func (d *Driver) Done() <-chan struct{} { return d.done }

// Close ends the server and waits for it. The browser continues to run.
func (d *Driver) Close() {
	d.child.proc.Kill()
	<-d.done
}
