package launch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// testBundles has a bundle for Windows and a bundle for Haiku.
type testBundles struct{}

var (
	windows = bundle.Bundle{
		Filename: "windows.json", Name: "Windows", OS: "windows",
		Emulation: settings.Emulation{UserAgent: "bundle", Locale: "bundle", TimezoneID: "Etc/UTC"},
	}
	haiku = bundle.Bundle{Filename: "haiku.json", Name: "Haiku", OS: "haiku", BrowserVersion: 1}
)

func (testBundles) Match(c bundle.Criteria) (bundle.Bundle, bool) {
	for _, b := range []bundle.Bundle{windows, haiku} {
		if c.OS == b.OS && len(c.Mismatches(b)) == 0 {
			return b, true
		}
	}
	return bundle.Bundle{}, false
}

func (testBundles) ByFilename(filename string) (bundle.Bundle, bool) {
	found, ok := map[string]bundle.Bundle{"windows.json": windows, "haiku.json": haiku}[filename]
	return found, ok
}

func (testBundles) Filenames() []string { return []string{"haiku.json", "windows.json"} }

func chosen(b bundle.Bundle) session.Bundle {
	return session.Bundle{Filename: b.Filename, Name: b.Name}
}

func withBundles(o *launch.Options) { o.Bundles = testBundles{} }

func TestBundle_FillsSettingsThatLaunchAndProfileLeaveUnset(t *testing.T) {
	for _, tc := range []struct {
		os, locale, userAgent, timezone string
	}{{"windows", "own", "profile", "Etc/UTC"}, {"beos", "own", "profile", ""}, {"", "own", "profile", ""}} {
		launcher := &recordingLauncher{}
		r := newFixture(t, withBundles, func(o *launch.Options) { o.Launcher = launcher })
		r.cloud.profile.Criteria.OS = tc.os
		r.cloud.profile.Settings = launch.Settings{Settings: settings.Settings{Emulation: settings.Emulation{UserAgent: "profile", Locale: "profile"}, Options: settings.Options{Permissions: []string{}}}}
		request := byProfile()
		request.Override.Locale = "own"
		_, err := r.Launch(t.Context(), request)
		assertKind(t, err, fault.Internal)
		got := launcher.spec
		if got.Locale != tc.locale || got.UserAgent != tc.userAgent || got.TimezoneID != tc.timezone {
			t.Errorf("%q: launched %+v", tc.os, got)
		}
	}
}

func TestSpec_RefusesUnmatchedCriteriaBeforeAuthorize(t *testing.T) {
	r := newFixture(t, withBundles)
	_, err := r.Launch(t.Context(), launch.Request{Headless: true, Spec: &launch.Spec{Criteria: bundle.Criteria{OS: "beos", OSArch: "arm", GPUName: "g"}}})
	want := []fault.Detail{{Field: "spec", Code: fault.Custom, Message: "no bundle of this worker matches os beos, osArch arm, gpuName g"}}
	if diff := cmp.Diff(want, assertKind(t, err, fault.Validation).Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	if len(r.cloud.requests) > 0 {
		t.Error("the cloud got a request")
	}
	r.launch(t, launch.Request{Headless: true, Spec: &launch.Spec{Criteria: bundle.Criteria{OS: "windows"}}})
	r.launch(t, launch.Request{Headless: true, Spec: &launch.Spec{}})
}

func TestSpec_FilenameSelectsBundle(t *testing.T) {
	r := newFixture(t, withBundles)
	r.cloud.profile.Criteria = bundle.Criteria{} // the cloud does not store the filename
	got := r.launch(t, launch.Request{Headless: true, Spec: &launch.Spec{Filename: "windows.json"}})
	if got.Bundle != chosen(windows) {
		t.Errorf("the session has the bundle %+v", got.Bundle)
	}
	if listed, _ := r.Sessions.Get(got.ID); listed.Bundle != chosen(windows) {
		t.Errorf("the listed session has the bundle %+v", listed.Bundle)
	}
	r.cloud.profile.Criteria = bundle.Criteria{OS: "windows"}
	if got := r.launch(t, byProfile()); got.Bundle != chosen(windows) {
		t.Errorf("a profile's session has the bundle %+v", got.Bundle)
	}
	r.cloud.profile.Criteria = bundle.Criteria{OS: "beos"}
	if got := r.launch(t, byProfile()); got.Bundle != (session.Bundle{}) {
		t.Errorf("a session without a bundle has %+v", got.Bundle)
	}
}

func TestSpec_RefusesInvalidFilename(t *testing.T) {
	r := newFixture(t, withBundles)
	for name, tc := range map[string]struct {
		spec launch.Spec
		want []fault.Detail
	}{
		"unknown": {launch.Spec{Filename: "amiga.json"}, []fault.Detail{{
			Field: "spec.filename", Code: fault.InvalidEnumValue, Message: "is not a bundle of this worker; GET /profiles lists the bundles",
			Received: "amiga.json", Constraint: map[string]any{"allowed": []string{"haiku.json", "windows.json"}},
		}}},
		"contradicted": {launch.Spec{Filename: "windows.json", Criteria: bundle.Criteria{OS: "haiku", Model: "x"}}, []fault.Detail{
			{Field: "spec.os", Code: fault.Custom, Message: "conflicts with spec.filename: windows.json has os windows"},
			{Field: "spec.model", Code: fault.Custom, Message: "conflicts with spec.filename: windows.json has no model"},
		}},
	} {
		_, err := r.Launch(t.Context(), launch.Request{Headless: true, Spec: &tc.spec})
		if diff := cmp.Diff(tc.want, assertKind(t, err, fault.Validation).Details); diff != "" {
			t.Errorf("%s: details (-want +got):\n%s", name, diff)
		}
	}
	_, err := r.Launch(t.Context(), launch.Request{Headless: true, Spec: &launch.Spec{Filename: "haiku.json"}})
	if details := assertKind(t, err, fault.NotInstalled).Details; len(details) != 1 || details[0].Received != 1 {
		t.Errorf("for a version that is not installed: %+v", details)
	}
	if len(r.cloud.requests) > 0 {
		t.Error("the cloud got a request")
	}
}

// TestSpec_WithoutVersionGetsVersionOfItsBundle checks that every bundle of GET
// /profiles can be launched.
func TestSpec_WithoutVersionGetsVersionOfItsBundle(t *testing.T) {
	r := newFixture(t, withBundles, func(o *launch.Options) {
		newest := o.Builds.(fakeBuilds)[0]
		older := newest
		older.Major = 1
		o.Builds = fakeBuilds{newest, older}
	})
	for _, spec := range []launch.Spec{{Filename: "haiku.json"}, {Criteria: bundle.Criteria{OS: "haiku"}}} {
		r.cloud.profile.BrowserVersion = 1
		got := r.launch(t, launch.Request{Headless: true, Spec: &spec})
		if request := r.cloud.requests[len(r.cloud.requests)-1]; request.BrowserVersion != 1 || got.Bundle != chosen(haiku) || got.BrowserVersion != 1 {
			t.Errorf("%+v: authorized version %d, launched %d with %+v", spec, request.BrowserVersion, got.BrowserVersion, got.Bundle)
		}
	}
}
