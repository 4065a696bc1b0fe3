package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/benchresult"
)

const (
	pingDuration = 500 * time.Millisecond // the duration of a measurement of round trips
	bigResult    = 8 << 20                // bytes
	bigResults   = 6                      // results in a measurement of throughput
)

// relay measures CDP with one browser, alternately through the worker, directly and
// through HAProxy.
func (b *bench) relay(ctx context.Context) (rows []benchresult.Row, err error) {
	s, err := b.cold.launch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.cold.end(ctx, s)) }()
	address, err := url.Parse(s.WebSocketDebuggerURL)
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(address.Path, "/devtools/")
	through := socket{address: s.WebSocketDebuggerURL}
	browser, err := b.cold.mainProcess(s)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(s.DebugPort)
	floor, err := b.startHAProxy(ctx, browser, port)
	if err != nil {
		return nil, err
	}
	defer floor.stop()
	inside := func(port string) socket {
		return socket{"ws://127.0.0.1:" + port + "/devtools/" + rest, dialInNetwork(browser, port)}
	}
	direct, forwarded := inside(port), inside(floor.port)
	if err := awaitIdle(ctx); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		what, unit string
		least      float64
		measure    func(ctx context.Context, target socket) (float64, error)
	}{
		{"evaluate, 16 clients", "1/s", 0.95, func(ctx context.Context, target socket) (float64, error) {
			return roundTrips(ctx, target, 16, evaluate)
		}},
		{"results of 8 MiB, 1 client", "MB/s", 0.98, throughput},
		{"Browser.getVersion, 1 client", "1/s", 0.6, func(ctx context.Context, target socket) (float64, error) { return roundTrips(ctx, target, 1, ping) }},
	} {
		side := func(target socket) benchresult.Side[float64] {
			return func(ctx context.Context) (float64, error) { return m.measure(ctx, target) }
		}
		all, err := benchresult.Interleave(ctx, b.rounds, side(through), side(direct), side(forwarded))
		if err != nil {
			return nil, err
		}
		ours := benchresult.Row{What: "relay: " + m.what, Unit: m.unit, Ours: benchresult.Median(all[0], identity)}
		beside := func(other []float64, than string, target benchresult.Target) {
			row := ours
			row.Other, row.Than, row.Target = benchresult.Median(other, identity), than, target
			rows = append(rows, row)
		}
		beside(all[1], "the browser's own socket", benchresult.AtLeast(m.least))
		beside(all[2], "through "+floor.version, benchresult.Target{})
	}
	return rows, nil
}

// socket is a WebSocket of a browser.
type socket struct {
	address string
	connect func(context.Context) (net.Conn, error) // nil: connect to the address
}

// mainProcess returns the main process of a session's browser.
func (w *worker) mainProcess(s session) (pid int, err error) {
	port := fmt.Sprintf("--remote-debugging-port=%d", s.DebugPort)
	for _, p := range descendants(w.PID()) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if strings.Contains(string(line), port) && !strings.Contains(string(line), "--type=") {
			return p.pid, nil
		}
	}
	return 0, errors.New("the browser is not among the worker's processes")
}

// dialInNetwork returns a function that connects to a loopback port in the network
// namespace of a process.
func dialInNetwork(pid int, port string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (conn net.Conn, err error) {
		err = inNetworkNamespace(pid, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
			return err
		})
		return conn, err
	}
}

// inNetworkNamespace calls do on a thread in the network namespace of a process.
func inNetworkNamespace(pid int, do func() error) error {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer theirs.Close()
	runtime.LockOSThread() // if the thread cannot return to its namespace, it ends with this goroutine
	if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter the browser's network namespace (requires root): %w", err)
	}
	err = do()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return err
}

func identity(f float64) float64 { return f }

// ping sends the cheapest command to the browser.
func ping(ctx context.Context, c *client) error {
	_, err := c.call(ctx, "Browser.getVersion", struct{}{})
	return err
}

// evaluate evaluates an expression in the browser's page.
func evaluate(ctx context.Context, c *client) error {
	_, err := c.call(ctx, "Runtime.evaluate", map[string]any{"expression": "6 * 7", "returnByValue": true})
	return err
}

// roundTrips returns the answers per second that the clients get in total.
func roundTrips(ctx context.Context, target socket, clients int, ask func(context.Context, *client) error) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var answers atomic.Int64
	failures := make(chan error, clients)
	all := make([]*client, clients)
	for i := range all {
		c, err := dial(ctx, target.address, target.connect)
		if err != nil {
			return 0, err
		}
		defer c.close()
		if err := c.attach(ctx); err != nil {
			return 0, err
		}
		all[i] = c
	}
	began := time.Now()
	var running sync.WaitGroup
	for _, c := range all {
		running.Go(func() {
			for time.Since(began) < pingDuration {
				if err := ask(ctx, c); err != nil {
					failures <- err
					return
				}
				answers.Add(1)
			}
		})
	}
	running.Wait()
	took := time.Since(began).Seconds()
	close(failures)
	return float64(answers.Load()) / took, <-failures
}

// throughput returns the megabytes per second of large results for one client.
func throughput(ctx context.Context, target socket) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := dial(ctx, target.address, target.connect)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.attach(ctx); err != nil {
		return 0, err
	}
	expression := map[string]any{"expression": fmt.Sprintf(`window.big ??= "x".repeat(%d)`, bigResult), "returnByValue": true}
	if _, err := c.call(ctx, "Runtime.evaluate", expression); err != nil { // the first call creates the string
		return 0, err
	}
	began, bytes := time.Now(), 0
	for range bigResults {
		answer, err := c.call(ctx, "Runtime.evaluate", expression)
		if err != nil {
			return 0, err
		}
		bytes += len(answer)
	}
	return float64(bytes) / 1e6 / time.Since(began).Seconds(), nil
}
