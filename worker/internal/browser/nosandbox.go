package browser

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// runsWithoutSandbox reports whether browsers of a build run without Chromium's
// sandbox.
func (l *Launcher) runsWithoutSandbox(build builds.Build) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noSandbox[build.Path]
}

// confirmNoSandbox checks with a canary that the host denies a build its
// sandbox, and if so makes the build run without one. The output of a launch is
// no proof, because switches and pages of the caller influence it. The canary
// has neither.
func (l *Launcher) confirmNoSandbox(ctx context.Context, build builds.Build) bool {
	canary, err := l.launch(ctx, Spec{LaunchID: "canary-" + rand.Text(), Build: build, Headless: true, Options: settings.Options{StartURLs: []string{}}}, false)
	if err == nil {
		_ = canary.Kill(ctx)
	}
	if !errors.Is(err, ErrNoSandbox) {
		l.log.Warn("launch reported no usable sandbox, but a canary launch has one", "build", build.Path, "canary", err)
		return false
	}
	l.log.Warn("host denies Chromium's sandbox; browsers run without it because MIN_ISOLATION is none", "build", build.Path)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noSandbox[build.Path] = true
	return true
}

// Isolation returns how launches are isolated.
func (l *Launcher) Isolation() sandbox.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.noSandbox) == 0 {
		return l.report
	}
	return l.report.WithDisabled(sandbox.ChromiumSandbox, "the host denies it and MIN_ISOLATION is none; the log names the builds that run without it")
}
