package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/scripts/bench/results"
)

const (
	pingTime   = 500 * time.Millisecond // of one measurement of round trips
	bigResult  = 8 << 20                // bytes
	bigResults = 6                      // of one measurement of throughput
)

// relay drives one browser through the worker and directly, in turns.
func (b *bench) relay(ctx context.Context) (rows []results.Row, err error) {
	s, err := b.cold.launch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.cold.end(ctx, s)) }()
	address, err := url.Parse(s.WebSocketDebuggerURL)
	if err != nil {
		return nil, err
	}
	_, guid, _ := strings.Cut(address.Path, "/devtools/")
	direct := fmt.Sprintf("ws://127.0.0.1:%d/devtools/%s", s.DebugPort, guid)
	if err := settle(ctx); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		what, unit string
		least      float64
		measure    func(ctx context.Context, address string) (float64, error)
	}{
		{"evaluate, 16 clients", "1/s", 0.95, func(ctx context.Context, a string) (float64, error) { return roundTrips(ctx, a, 16, evaluate) }},
		{"results of 8 MiB, 1 client", "MB/s", 0.98, throughput},
		{"Browser.getVersion, 1 client", "1/s", 0.6, func(ctx context.Context, a string) (float64, error) { return roundTrips(ctx, a, 1, ping) }},
	} {
		side := func(address string) results.Side[float64] {
			return func(ctx context.Context) (float64, error) { return m.measure(ctx, address) }
		}
		all, err := results.Interleave(ctx, b.rounds, side(s.WebSocketDebuggerURL), side(direct))
		if err != nil {
			return nil, err
		}
		rows = append(rows, results.Row{
			What: "relay: " + m.what, Unit: m.unit, Ours: results.Median(all[0], itself),
			Other: results.Median(all[1], itself), Than: "the browser's own socket", Target: results.AtLeast(m.least),
		})
	}
	return rows, nil
}

func itself(f float64) float64 { return f }

// ping is the least that a browser can be asked.
func ping(ctx context.Context, c *client) error {
	_, err := c.call(ctx, "Browser.getVersion", struct{}{})
	return err
}

// evaluate asks the browser's page.
func evaluate(ctx context.Context, c *client) error {
	_, err := c.call(ctx, "Runtime.evaluate", map[string]any{"expression": "6 * 7", "returnByValue": true})
	return err
}

// roundTrips is how often so many clients get an answer in a second.
func roundTrips(ctx context.Context, address string, clients int, ask func(context.Context, *client) error) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var made atomic.Int64
	failures := make(chan error, clients)
	all := make([]*client, clients)
	for i := range all {
		c, err := dial(ctx, address)
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
			for time.Since(began) < pingTime {
				if err := ask(ctx, c); err != nil {
					failures <- err
					return
				}
				made.Add(1)
			}
		})
	}
	running.Wait()
	took := time.Since(began).Seconds()
	close(failures)
	return float64(made.Load()) / took, <-failures
}

// throughput is how fast big results come to one client.
func throughput(ctx context.Context, address string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := dial(ctx, address)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.attach(ctx); err != nil {
		return 0, err
	}
	expression := map[string]any{"expression": fmt.Sprintf(`window.big ??= "x".repeat(%d)`, bigResult), "returnByValue": true}
	if _, err := c.call(ctx, "Runtime.evaluate", expression); err != nil { // the first makes it
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
