package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// most is what the plan of a new organization allows at once.
const most = 3

// weigh tells what the worker's own process holds of memory: idle, and more for
// each session that runs with a client connected.
func weigh(ctx context.Context, h *house, _ int) ([]row, error) {
	warm, err := h.launch(ctx) // what is made once, is made
	if err != nil {
		return nil, err
	}
	if err := h.end(ctx, warm); err != nil {
		return nil, err
	}
	idle, err := h.resident(ctx)
	if err != nil {
		return nil, err
	}
	var running []session
	var peers []*peer
	for range most {
		s, err := h.launch(ctx)
		if err != nil {
			return nil, err
		}
		running = append(running, s)
		p, err := dial(ctx, s.WebSocketDebuggerURL)
		if err != nil {
			return nil, err
		}
		peers = append(peers, p)
		if _, err := p.call(ctx, "Browser.getVersion", struct{}{}); err != nil {
			return nil, err
		}
	}
	full, err := h.resident(ctx)
	for i, s := range running {
		_ = peers[i].conn.CloseNow()
		err = errors.Join(err, h.end(ctx, s))
	}
	return []row{
		{"worker's resident memory, idle", idle, 0, "MB"},
		{"more of it for each session with a client", (full - idle) / most, 0, "MB"},
	}, err
}

// resident is the worker's resident memory in MB, once it has settled.
func (h *house) resident(ctx context.Context) (float64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(time.Second):
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.worker.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kilobytes); err == nil {
			return kilobytes / 1024, nil
		}
	}
	return 0, errors.New("no VmRSS")
}
