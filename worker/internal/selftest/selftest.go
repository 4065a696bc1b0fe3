// Package selftest tests a worker on its target machine. It launches a browser of each installed
// engine with the worker's settings, drives and ends it, and checks that no process, file, port
// or other resource remains. It needs no cloud: its own license allows its own launches only.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// Options configure a self-test.
type Options struct {
	// Open starts the parts of a worker that launch browsers.
	Open func(ctx context.Context, e Environment) (*Worker, error)

	Version int           // major version of the browsers; 0 is the newest
	Engine  builds.Engine // "" is every installed engine

	// CleanupTimeout is the time within which resources must be released. The kernel
	// frees a browser's memory slowly on a busy machine.
	CleanupTimeout time.Duration
}

// Environment replaces settings of the tested worker.
type Environment struct {
	DataDir      string
	AllowedHosts string // what browsers must reach on this machine
	License      launch.License
	Reports      launch.Reports
}

// Worker is the tested worker. Close must release all its resources.
type Worker struct {
	Launches  *launch.Service
	Builds    launch.Builds
	Isolation func() sandbox.Report
	Close     func(ctx context.Context) error
}

const launchTimeout = 90 * time.Second // generous: the test is for leaks, not for speed

// run is one self-test.
type run struct {
	Options
	launchesDir string
	license     *license
	site        *site
	machine     *machine
	worker      *Worker
	report      *Report
}

// Run runs a self-test. The error means that the test could not run; its findings
// are in the report.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil { // so that no process escapes
		return nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	dir, err := os.MkdirTemp("", "svc-selftest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // browsers may run as other users
		return nil, err
	}
	r := &run{Options: o, launchesDir: filepath.Join(dir, "launches"), license: newLicense(), machine: observeMachine(dir), report: &Report{User: userName()}}
	if r.site, err = startSite(); err != nil {
		return nil, err
	}
	defer r.site.close()
	r.worker, err = o.Open(ctx, Environment{DataDir: dir, AllowedHosts: r.site.address(), License: r.license, Reports: r.license})
	if err != nil {
		return nil, err
	}
	err = r.launchAll(ctx)
	err = errors.Join(err, r.stop(context.WithoutCancel(ctx)))
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", ctx.Err())
	}
	return r.report, err
}

func userName() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return "user " + strconv.Itoa(os.Geteuid())
}

// launchAll launches one browser of each engine, headless and with a window if possible, one
// after another.
func (r *run) launchAll(ctx context.Context) error {
	if missing, err := browser.MissingScripts(ctx); err == nil {
		r.report.MissingScripts = &missing
	}
	installed, err := r.worker.Builds.Find(ctx)
	if err != nil {
		return err
	}
	_, noDisplay := exec.LookPath("Xvnc")
	for _, engine := range []builds.Engine{builds.Chromium, builds.HeadlessShell} {
		build, found := builds.Choose(installed, r.Version, builds.Needs{Engine: engine})
		if !found || r.Engine != "" && r.Engine != engine {
			continue
		}
		r.check(ctx, build, true)
		switch {
		case build.Headful && noDisplay == nil:
			r.check(ctx, build, false)
		case build.Headful:
			r.report.Skipped = append(r.report.Skipped, build.Version+" headful: Xvnc is not installed")
		}
	}
	if len(r.report.Launches) == 0 {
		return errors.New("no such browser is installed: set CHROMIUM_PATH or run svc-worker browsers install")
	}
	r.report.describeIsolation(r.worker.Isolation())
	return nil
}

// check launches, drives and ends one browser.
func (r *run) check(ctx context.Context, build builds.Build, headless bool) {
	l := Launch{Browser: build.Version, Engine: string(build.Engine), Headless: headless}
	ctx, cancel := context.WithTimeout(ctx, 2*launchTimeout)
	defer cancel()
	var problems []string
	if err := r.launch(ctx, build, &l); err != nil {
		problems = append(problems, err.Error())
	}
	r.report.Launches = append(r.report.Launches, l)
	r.report.check(l.String()+" is launched, driven and ended", problems...)
}

func (r *run) launch(ctx context.Context, build builds.Build, l *Launch) error {
	began := time.Now()
	launched, err := r.worker.Launches.Launch(ctx, launch.Request{
		Spec: r.license.spec(build.Major), Engine: build.Engine, Headless: l.Headless, Timeout: launchTimeout,
	})
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	l.LaunchMs = milliseconds(began)
	r.machine.observeCgroups()
	err = r.drive(ctx, launched, l)
	began = time.Now()
	ended, endErr := r.worker.Launches.Kill(ctx, launched.ID)
	if endErr == nil && ended.EndReason != session.ByRequest {
		endErr = fmt.Errorf("the session ended for %s, want %s", ended.EndReason, session.ByRequest)
	}
	l.EndMs = milliseconds(began)
	if left := waitUntilEmpty(r.CleanupTimeout, func() []string { return r.leftovers(launched) }); len(left) > 0 {
		endErr = errors.Join(endErr, fmt.Errorf("the session has ended but %v remain", left))
	}
	return errors.Join(err, endErr)
}

func (r *run) drive(ctx context.Context, launched session.Session, l *Launch) error {
	running, ok := r.worker.Launches.Running(launched.LaunchID)
	if !ok {
		return errors.New("the browser has ended by itself")
	}
	began := time.Now()
	if err := openPage(ctx, running, "http://"+r.site.address()+"/"); err != nil {
		return fmt.Errorf("drive: %w", err)
	}
	l.PageMs = milliseconds(began)
	if l.Headless {
		return nil
	}
	display, ok := running.Browser.Display()
	if !ok {
		return errors.New("the browser has no display")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", display.Socket)
	if err != nil {
		return fmt.Errorf("connect to the display: %w", err)
	}
	return conn.Close()
}

// leftovers returns the port and the directory of an ended launch if they still exist.
func (r *run) leftovers(ended session.Session) []string {
	var found []string
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ended.DebugPort)), time.Second) //nolint:noctx // has a timeout
	if err == nil {
		_ = conn.Close()
		found = append(found, "port "+strconv.Itoa(ended.DebugPort))
	}
	dir := filepath.Join(r.launchesDir, ended.LaunchID.String())
	if _, err := os.Lstat(dir); err == nil {
		found = append(found, dir)
	}
	return found
}

// stop stops the worker and checks for leaks.
func (r *run) stop(ctx context.Context) error {
	closing, cancel := context.WithTimeout(ctx, r.CleanupTimeout)
	defer cancel()
	err := r.worker.Close(closing)
	r.site.close()
	r.report.check("each session is reported once, with its end", r.license.problems()...)
	for _, kind := range []struct {
		name string
		find func() []string
	}{
		{"process", r.machine.leftoverProcesses}, {"descriptor of this process", r.machine.newDescriptors},
		{"display, lock or link in /tmp", r.machine.newDisplayFiles}, {"mount", r.machine.leftoverMounts},
		{"control group", r.machine.leftoverCgroups}, {"launch directory", func() []string { return listDir(r.launchesDir) }},
	} {
		r.report.check("after stop: no "+kind.name, waitUntilEmpty(r.CleanupTimeout, kind.find)...)
	}
	return err
}

func milliseconds(since time.Time) int64 { return time.Since(since).Milliseconds() }

// waitUntilEmpty polls until find returns nothing, and returns what remains after
// the timeout.
func waitUntilEmpty(timeout time.Duration, find func() []string) []string {
	deadline := time.Now().Add(timeout)
	for {
		found := find()
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
		time.Sleep(10 * time.Millisecond)
	}
}
