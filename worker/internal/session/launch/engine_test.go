package launch_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// TestEngine_NamesTheInstalledOne launches engines that are not installed.
func TestEngine_NamesTheInstalledOne(t *testing.T) {
	installed := fakeBuilds{
		{Major: 8, Version: "8.0.0.0", Engine: builds.HeadlessShell, Path: "/shell"},
		{Major: 7, Version: "7.0.0.0", Engine: builds.Chromium, Path: "/whole", Headful: true},
	}
	for name, test := range map[string]struct {
		version int
		change  func(*launch.Request)
		field   string
		message string
	}{
		"no shell": {7, func(r *launch.Request) { r.Engine = builds.HeadlessShell }, "browser.engine",
			"must be chromium: browser version 7 is not installed as headless-shell on this worker; GET /profiles/versions lists the builds"},
		"only a shell": {8, func(r *launch.Request) { r.Engine = builds.Chromium }, "browser.engine",
			"must be headless-shell: browser version 8 is not installed as chromium on this worker; GET /profiles/versions lists the builds"},
		"a window of a shell": {8, func(r *launch.Request) { r.Headless = false }, "browser.headless",
			"must be true: browser version 8 on this worker does not support headful mode"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, func(o *launch.Options) { o.Builds, o.Launcher = installed, &recordingLauncher{} })
			r.cloud.profile.BrowserVersion = test.version
			id := uuid.New()
			request := launch.Request{ProfileID: &id, Headless: true}
			test.change(&request)
			_, err := r.Launch(t.Context(), request)
			f := fault.From(err)
			if f == nil || f.Kind != fault.Validation || len(f.Details) != 1 || f.Details[0].Field != test.field || f.Details[0].Message != test.message {
				t.Errorf("error %+v", f)
			}
		})
	}
}
