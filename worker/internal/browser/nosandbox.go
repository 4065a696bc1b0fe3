package browser

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// runsWithoutSandbox reports whether browsers of a build run without Chromium's sandbox.
func (l *Launcher) runsWithoutSandbox(build Build) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noSandbox[build.Path]
}

// confirmNoSandbox tries whether it is this host that denies a build its sandbox, and has
// the build run without from then on where it is. What a launch says is no proof:
// a caller's switches and pages have a part in it. They have none here.
func (l *Launcher) confirmNoSandbox(ctx context.Context, build Build) bool {
	canary, err := l.launch(ctx, Spec{LaunchID: "canary-" + rand.Text(), Build: build, Headless: true, StartURLs: []string{}}, false)
	if err == nil {
		_ = canary.Kill(ctx)
	}
	if !errors.Is(err, ErrNoSandbox) {
		l.log.Warn("a launch says that it has no usable sandbox, but the host does not deny it", "build", build.Path, "canary", err)
		return false
	}
	l.log.Warn("THIS HOST DENIES CHROMIUM ITS SANDBOX: browsers run without one from now on, as the configuration allows", "build", build.Path)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noSandbox[build.Path] = true
	return true
}

// Isolation says how far launches are isolated.
func (l *Launcher) Isolation() sandbox.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.noSandbox) == 0 {
		return l.report
	}
	return l.report.WithDisabled(sandbox.ChromiumSandbox, "the host denies it to a browser, and ALLOW_NO_SANDBOX is set: the log says which run without")
}
