package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/scripts/children"
)

const readyTimeout = 90 * time.Second // the maximum timeout of a launch

// program is a running svc-cloud or svc-worker.
type program struct {
	*children.Child
	url string // its base URL
}

// start starts a program with its own data directory and port, and waits until it
// is ready.
func (e *environment) start(ctx context.Context, name, dir string, environment ...string) (*program, error) {
	port, err := children.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	p := &program{url: "http://127.0.0.1:" + port, Child: &children.Child{Program: children.Program{
		Name: dir, Path: filepath.Join(e.dir, name), Log: filepath.Join(e.dir, dir+".log"), Health: "http://127.0.0.1:" + port + "/health", Clean: true,
		Environment: append([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "HOST=127.0.0.1", "PORT=" + port, "DATA_DIR=" + filepath.Join(e.dir, dir),
		}, environment...),
	}}}
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the program, or restarts it after it has ended.
func (p *program) run(ctx context.Context) error {
	child, err := children.Start(ctx, p.Program)
	if err != nil && child != nil {
		_ = child.Stop() // err is the reason
	}
	if err == nil {
		p.Child = child
	}
	return err
}

func (p *program) host() string { return strings.TrimPrefix(p.url, "http://") }

// cpu returns the CPU time of the process, user and system, from Linux's per-process
// clock.
func (p *program) cpu() (time.Duration, error) {
	const ofAllThreads = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID()<<3|ofAllThreads), &used); err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", p.Name, err)
	}
	return time.Duration(used.Nano()), nil
}

// withCPU is a side that also measures the program's CPU time per operation.
func (p *program) withCPU(measure loadSide) loadSide {
	return func(ctx context.Context) (load, error) {
		before, err := p.cpu()
		if err != nil {
			return load{}, err
		}
		began := time.Now()
		l, err := measure(ctx)
		if err != nil {
			return l, err
		}
		done := l.perSecond * time.Since(began).Seconds()
		after, err := p.cpu()
		l.cpuMicros = float64((after - before).Microseconds()) / done
		return l, err
	}
}
