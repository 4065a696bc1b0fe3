package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/benchresult"
)

// side is a tool, or the worker, with a client that generates load.
type side struct {
	name    string
	client  *peer
	worker  *worker // nil: another tool
	warm    bool    // a worker with a pool
	noBurst bool    // bursts are not measured

	comparedWith []*side
	ratio        float64 // target of the sessions per minute of several clients, compared with the first
}

// startSides starts the other tools and the workers. The caller must call stop also after
// an error.
func (t *throughputBench) startSides(ctx context.Context) (stop func(), err error) {
	stop = func() {
		for _, s := range t.all {
			s.client.stop()
		}
	}
	for name, environment := range map[string]string{"warm": "AUTO_ENGINE=false", "warm-shell": "AUTO_ENGINE=true", "cold": "WARM_POOL=0"} {
		w, err := t.worker(ctx, name, environment)
		if err != nil {
			return stop, err
		}
		t.workers[name] = w
		if err := w.drain(ctx); err != nil {
			return stop, err
		}
	}
	return stop, t.startClients(ctx)
}

// copyBrowser copies the directory of the browser for the other tools, which download browsers
// of their own: otherwise they would use the pages that the worker has loaded. Nothing of the
// copy is in the page cache, as after a boot.
func (t *throughputBench) copyBrowser(ctx context.Context) (dir string, err error) {
	dir = filepath.Join(t.dir, "browser")
	if out, err := exec.CommandContext(ctx, "cp", "-a", filepath.Dir(t.build.path), dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy the browser: %w\n%s", err, out)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	return dir, fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := root.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	})
}

// startClients starts the client of each side.
func (t *throughputBench) startClients(ctx context.Context) error {
	programs, err := t.copyBrowser(ctx)
	if err != nil {
		return err
	}
	shell, full := filepath.Join(programs, "chromium-headless-shell"), filepath.Join(programs, filepath.Base(t.build.path))
	defaultServer, err := t.side(ctx, "playwright run-server, shell", "run-server", shell, nil, "")
	server, err2 := t.side(ctx, "playwright run-server, full", "run-server", full, nil, "")
	puppeteer, err3 := t.side(ctx, "puppeteer, full", "puppeteer", full, nil, "")
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	puppeteer.noBurst = true
	for _, ours := range []struct {
		name, engine, worker string
		comparedWith         []*side
		ratio                float64
	}{
		{"shell, warm", "headless-shell", "warm-shell", []*side{defaultServer}, 1.3},
		{"shell, cold", "headless-shell", "cold", []*side{defaultServer}, 0},
		{"full, warm", "chromium", "warm", []*side{server, puppeteer}, 2.2},
		{"full, cold", "chromium", "cold", []*side{server, puppeteer}, 0},
	} {
		s, err := t.side(ctx, ours.name, "worker", "", t.workers[ours.worker], ours.engine)
		if err != nil {
			return err
		}
		s.warm, s.comparedWith, s.ratio = ours.worker != "cold", ours.comparedWith, ours.ratio
	}
	return nil
}

// side starts the client of a side, and with it the tool.
func (t *throughputBench) side(ctx context.Context, name, program, executable string, w *worker, engine string) (*side, error) {
	s := &side{name: name, worker: w, client: &peer{name: name}}
	setup := map[string]any{"executable": executable, "page": t.longPage, "sandbox": os.Geteuid() != 0, "profile": t.profile, "engine": engine}
	if w != nil {
		setup["worker"], setup["key"] = w.url, w.key.Get("X-Api-Key")
	}
	if err := s.client.start(ctx, t.environment, "node", []string{"scripts/bench/peers/throughput.mjs", program, fmt.Sprintf("side-%d", len(t.all))}, setup); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t.all = append(t.all, s)
	return s, nil
}

// loadSession contains the times of a session in milliseconds.
type loadSession struct {
	Answered, Loaded float64
	Warm             bool
	Error            string
}

func (s loadSession) answered() float64 { return s.Answered }
func (s loadSession) loaded() float64   { return s.Loaded }

// loadResult is the result of a task.
type loadResult struct {
	Seconds  float64
	Sessions []loadSession
	cpu      time.Duration
}

func (r loadResult) perMinute() float64  { return 60 * float64(len(r.Sessions)) / r.Seconds }
func (r loadResult) cpuSeconds() float64 { return r.cpu.Seconds() / float64(len(r.Sessions)) }
func (r loadResult) firstAnswer() float64 {
	return r.quantile(0.5, loadSession.answered)
}

func (r loadResult) warmShare() (percent float64) {
	for _, s := range r.Sessions {
		if s.Warm {
			percent += 100 / float64(len(r.Sessions))
		}
	}
	return percent
}

func (r loadResult) quantile(share float64, figure func(loadSession) float64) float64 {
	return benchresult.Quantile(r.Sessions, share, figure)
}

// loop is the task of back-to-back sessions.
func loop(clients, seconds int) map[string]any {
	return map[string]any{"task": "loop", "clients": clients, "seconds": seconds}
}

// measure runs a task. A worker drains before and after it, so that the pools of idle
// workers use no memory.
func (t *throughputBench) measure(ctx context.Context, s *side, task map[string]any) (result loadResult, err error) {
	if s.worker != nil {
		if err := call(ctx, http.MethodDelete, s.worker.url+"/fleet/drain", s.worker.key, nil, nil); err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, s.worker.drain(context.WithoutCancel(ctx))) }()
		if err := s.worker.waitForWarmPool(ctx); err != nil {
			return result, err
		}
	} else if err := awaitIdle(ctx); err != nil {
		return result, err
	}
	shares := t.shares(s)
	before, err := t.cpu.used()
	if err != nil {
		return result, err
	}
	limit := 5*time.Minute + time.Duration(t.steadySeconds)*time.Second
	if err := s.client.request(ctx, limit, task, &result); err != nil {
		return result, fmt.Errorf("%s: %w", s.name, err)
	}
	if failure := first(result.Sessions); failure != "" {
		return result, fmt.Errorf("%s: %s", s.name, failure)
	}
	for i, share := range t.shares(s) {
		shares[i] = (share - shares[i]) / float64(len(result.Sessions))
	}
	after, err := t.cpu.used()
	result.cpu = after - before
	benchresult.Detail("%s, %v: %.0f/min, %.2f s CPU (client %.3f, worker %.3f, cloud %.3f), %.0f %% warm, first answer %.0f ms (p95 %.0f), loaded p95 %.0f ms", s.name, task,
		result.perMinute(), result.cpuSeconds(), shares[0], shares[1], shares[2], result.warmShare(), result.firstAnswer(), result.quantile(0.95, loadSession.answered), result.quantile(0.95, loadSession.loaded))
	return result, err
}

// shares returns the processor time in seconds that the processes of the client with its
// tool, of the worker and of the cloud have used so far, without browsers.
func (t *throughputBench) shares(s *side) (seconds [3]float64) {
	pids := []int{s.client.cmd.Process.Pid, 0, t.cloud.PID()}
	if s.worker != nil {
		pids[1] = s.worker.PID()
	}
	for _, p := range processes() {
		if i := slices.Index(pids, p.pid); i >= 0 {
			seconds[i] += float64(p.ticks) / 100
		}
	}
	for i, pid := range pids {
		for _, p := range descendants(pid) {
			if pid != 0 && p.name == "node" {
				seconds[i] += float64(p.ticks) / 100
			}
		}
	}
	for _, p := range descendants(os.Getpid()) { // PostgreSQL is part of the cloud
		if p.name == "postgres" {
			seconds[2] += float64(p.ticks) / 100
		}
	}
	return seconds
}

// drain stops the warm browsers of a worker, until it resumes.
func (w *worker) drain(ctx context.Context) error {
	return call(ctx, http.MethodPost, w.url+"/fleet/drain", w.key, nil, nil)
}
