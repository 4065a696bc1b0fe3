package launch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// hostSnapshot is the state of this machine at the beginning of a launch.
type hostSnapshot struct {
	builds    []builds.Build
	buildsErr error  // of listing the builds
	oomKills  uint64 // processes that the kernel has killed for lack of memory
}

// hostReader returns a function that takes the snapshot when it is first called.
func (s *Service) hostReader(ctx context.Context) func() hostSnapshot {
	return sync.OnceValue(func() (found hostSnapshot) {
		found.oomKills = s.OutOfMemory()
		found.builds, found.buildsErr = s.Builds.Find(ctx)
		return found
	})
}

// findBuild returns the installed build of a major version, or the newest build for
// 0, that has the needed capabilities. Errors: NotInstalled, Validation.
func (m hostSnapshot) findBuild(major int, needs builds.Needs) (builds.Build, error) {
	if m.buildsErr != nil {
		return builds.Build{}, fmt.Errorf("list installed browsers: %w", m.buildsErr)
	}
	if build, ok := builds.Choose(m.builds, major, needs); ok {
		return build, nil
	}
	installed := func(b builds.Build) bool { return major == 0 || b.Major == major }
	if !slices.ContainsFunc(m.builds, installed) {
		return builds.Build{}, notInstalled(major, m.builds)
	}
	if _, ok := builds.Choose(m.builds, major, builds.Needs{Engine: needs.Engine}); !ok {
		return builds.Build{}, engineNotInstalled(needs.Engine, major)
	}
	version := "no browser version on this worker supports"
	if major != 0 {
		version = fmt.Sprintf("browser version %d on this worker does not support", major)
	}
	if _, ok := builds.Choose(m.builds, major, builds.Needs{Engine: needs.Engine, Headful: needs.Headful}); !ok {
		return builds.Build{}, fault.Field("browser.headless", "must be true: "+version+" headful mode")
	}
	return builds.Build{}, fault.Field("browser.extensions", "must be empty: "+version+" extensions")
}

// engineNotInstalled returns the error for a version that is installed as another engine.
func engineNotInstalled(engine builds.Engine, major int) error {
	other := builds.Chromium
	if engine == builds.Chromium {
		other = builds.HeadlessShell
	}
	version := "no browser version is"
	if major != 0 {
		version = fmt.Sprintf("browser version %d is not", major)
	}
	return fault.Field("browser.engine", fmt.Sprintf("must be %s: %s installed as %s on this worker; GET /profiles/versions lists the builds", other, version, engine))
}

// notInstalled returns the error of specification 4.3.
func notInstalled(major int, installed []builds.Build) error {
	versions := []int{}
	for _, build := range installed {
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
