package launch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// hostSnapshot is this machine as a launch finds it.
type hostSnapshot struct {
	builds    []browser.Build
	buildsErr error  // why they are not known
	oomKills  uint64 // processes killed for want of memory
}

// snapshotHost looks at this machine for a launch, while that goes on to ask the cloud.
func (s *Service) snapshotHost(ctx context.Context) func() hostSnapshot {
	look := sync.OnceValue(func() (found hostSnapshot) {
		found.oomKills = s.OutOfMemory()
		found.builds, found.buildsErr = s.Builds.Find(ctx)
		return found
	})
	s.active.Go(func() { look() })
	return look
}

// findBuild finds the installed build of a major version, the newest for 0, that can
// do what is asked. Errors: NotInstalled, Validation.
func (m hostSnapshot) findBuild(major int, headful bool) (browser.Build, error) {
	if m.buildsErr != nil {
		return browser.Build{}, fmt.Errorf("find the installed browsers: %w", m.buildsErr)
	}
	if build, ok := browser.Choose(m.builds, major, headful); ok {
		return build, nil
	}
	installed := func(b browser.Build) bool { return major == 0 || b.Major == major }
	switch {
	case !slices.ContainsFunc(m.builds, installed):
		return browser.Build{}, notInstalled(major, m.builds)
	case major == 0:
		return browser.Build{}, fault.Field("browser.headless", "no browser version can show a window on this worker")
	default:
		return browser.Build{}, fault.Field("browser.headless", fmt.Sprintf("browser version %d cannot show a window on this worker", major))
	}
}

// notInstalled is the answer of specification 4.3.
func notInstalled(major int, builds []browser.Build) error {
	versions := []int{}
	for _, build := range builds {
		if !slices.Contains(versions, build.Major) {
			versions = append(versions, build.Major)
		}
	}
	detail := fault.Detail{
		Field: "browserVersion", Code: fault.ResourceNotFound, Message: "is not installed",
		Constraint: map[string]any{"availableVersions": versions},
	}
	if major == 0 {
		return fault.New(fault.NotInstalled, "No browser is installed on this worker.", detail)
	}
	detail.Received = major
	return fault.New(fault.NotInstalled, fmt.Sprintf("Browser version %d is not installed on this worker.", major), detail)
}
