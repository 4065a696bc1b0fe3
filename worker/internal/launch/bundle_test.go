package launch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/launch"
)

func withBundles(o *launch.Options) {
	o.Preset = func(c launch.Criteria, version int) (launch.Settings, bool) {
		return launch.Settings{UserAgent: new("bundle"), Locale: new("bundle"), TimezoneID: new("Etc/UTC"), Permissions: []string{"camera"}}, c.OS == "windows" && version > 0
	}
}

func TestABundleFillsWhatNeitherTheLaunchNorTheProfileSets(t *testing.T) {
	for _, tc := range []struct {
		os, locale, userAgent, timezone string
		permissions                     int
	}{{"windows", "own", "profile", "Etc/UTC", 1}, {"beos", "own", "profile", "", 0}, {"", "own", "profile", "", 0}} {
		launcher := &recorder{}
		r := newRig(t, withBundles, func(o *launch.Options) { o.Launcher = launcher })
		r.cloud.profile.Criteria.OS = tc.os
		r.cloud.profile.Settings = launch.Settings{UserAgent: new("profile"), Locale: new("profile"), Permissions: []string{}}
		request := byProfile()
		request.Override.Locale = new("own")
		_, err := r.Launch(t.Context(), request)
		assertKind(t, err, fault.Internal)
		got := launcher.spec
		if got.Locale != tc.locale || got.UserAgent != tc.userAgent || got.TimezoneID != tc.timezone || len(got.Permissions) != tc.permissions {
			t.Errorf("%q: launched %+v", tc.os, got)
		}
	}
}

func TestASpecThatNoBundleFitsIsRefusedBeforeTheCloudIsAsked(t *testing.T) {
	r := newRig(t, withBundles)
	_, err := r.Launch(t.Context(), launch.Request{Headless: true, Spec: &launch.Spec{Criteria: launch.Criteria{OS: "beos", OSArch: "arm", GPUName: "g"}}})
	want := []fault.Detail{{Field: "spec", Code: fault.Custom, Message: "no bundle of this worker has os beos, osArch arm, gpuName g"}}
	if diff := cmp.Diff(want, assertKind(t, err, fault.Validation).Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	if len(r.cloud.asked) > 0 {
		t.Error("the cloud was asked")
	}
	r.launch(t, launch.Request{Headless: true, Spec: &launch.Spec{Criteria: launch.Criteria{OS: "windows"}}})
	r.launch(t, launch.Request{Headless: true, Spec: &launch.Spec{}})
}
