package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/ws"
)

const (
	pingTime   = 700 * time.Millisecond // of one measurement of round trips
	bigResult  = 8 << 20                // bytes
	bigResults = 6                      // of one measurement of throughput
)

// relay drives one browser through the worker and directly, in turns.
func relay(ctx context.Context, h *house, rounds int) (rows []row, err error) {
	s, err := h.launch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.end(context.WithoutCancel(ctx), s) }()
	through := s.WebSocketDebuggerURL
	address, err := url.Parse(through)
	if err != nil {
		return nil, err
	}
	_, guid, _ := strings.Cut(address.Path, "/devtools/")
	direct := fmt.Sprintf("ws://127.0.0.1:%d/devtools/%s", s.DebugPort, guid)
	for _, m := range []struct {
		what, unit string
		measure    func(ctx context.Context, address string) (float64, error)
	}{
		{"CDP round trips, 1 client", "1/s", func(ctx context.Context, a string) (float64, error) { return roundTrips(ctx, a, 1) }},
		{"CDP round trips, 16 clients", "1/s", func(ctx context.Context, a string) (float64, error) { return roundTrips(ctx, a, 16) }},
		{"results of 8 MiB, 1 client", "MB/s", throughput},
	} {
		worker, other, err := interleave(ctx, rounds,
			func(ctx context.Context) (float64, error) { return m.measure(ctx, through) },
			func(ctx context.Context) (float64, error) { return m.measure(ctx, direct) })
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{m.what, worker, other, m.unit})
	}
	return rows, nil
}

// peer speaks CDP one call at a time.
type peer struct {
	conn    *ws.Conn
	session string
	id      int
}

func dial(ctx context.Context, address string) (*peer, error) {
	conn, err := ws.Dial(ctx, address, nil, ws.Options{ReadLimit: 4 * bigResult})
	if err != nil {
		return nil, err
	}
	return &peer{conn: conn}, nil
}

// call returns the result as it came.
func (p *peer) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	p.id++
	text, err := json.Marshal(map[string]any{"id": p.id, "method": method, "params": params})
	if p.session != "" {
		text, err = json.Marshal(map[string]any{"id": p.id, "method": method, "params": params, "sessionId": p.session})
	}
	if err != nil {
		return nil, err
	}
	if err := p.conn.Write(ctx, ws.Text, text); err != nil {
		return nil, err
	}
	mine := fmt.Sprintf(`{"id":%d,`, p.id)
	for {
		_, answer, err := p.conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(answer[:min(len(answer), 32)]), mine) {
			return answer, nil
		}
	}
}

// roundTrips is how many trivial calls so many clients make in a second.
func roundTrips(ctx context.Context, address string, clients int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var made atomic.Int64
	failures := make(chan error, clients)
	peers := make([]*peer, clients)
	for i := range peers {
		p, err := dial(ctx, address)
		if err != nil {
			return 0, err
		}
		defer func() { _ = p.conn.CloseNow() }()
		peers[i] = p
	}
	began := time.Now()
	var running sync.WaitGroup
	for _, p := range peers {
		running.Go(func() {
			for time.Since(began) < pingTime {
				if _, err := p.call(ctx, "Browser.getVersion", struct{}{}); err != nil {
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

// throughput is how fast big results come.
func throughput(ctx context.Context, address string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p, err := dial(ctx, address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.conn.CloseNow() }()
	var made struct {
		Result struct{ TargetID, SessionID string }
	}
	for _, step := range []string{"Target.createTarget", "Target.attachToTarget"} {
		params := map[string]any{"url": "about:blank"}
		if made.Result.TargetID != "" {
			params = map[string]any{"targetId": made.Result.TargetID, "flatten": true}
		}
		answer, err := p.call(ctx, step, params)
		if err != nil {
			return 0, err
		}
		if err := json.Unmarshal(answer, &made); err != nil {
			return 0, err
		}
	}
	p.session = made.Result.SessionID
	expression := map[string]any{"expression": fmt.Sprintf(`window.big ??= "x".repeat(%d)`, bigResult), "returnByValue": true}
	if _, err := p.call(ctx, "Runtime.evaluate", expression); err != nil { // the first makes it
		return 0, err
	}
	began, bytes := time.Now(), 0
	for range bigResults {
		answer, err := p.call(ctx, "Runtime.evaluate", expression)
		if err != nil {
			return 0, err
		}
		bytes += len(answer)
	}
	rate := float64(bytes) / 1e6 / time.Since(began).Seconds()
	p.session = ""
	_, err = p.call(ctx, "Target.closeTarget", map[string]any{"targetId": made.Result.TargetID})
	return rate, err
}
