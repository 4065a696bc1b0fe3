package launch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/certs/certtest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func TestLaunch_AuthorizesStartsAndReports(t *testing.T) {
	r := newFixture(t)
	r.cloud.profile.Settings.Metadata = map[string]string{"team": "checkout", "env": "test"}
	request := byProfile()
	request.Override.Metadata = map[string]string{"env": "live"}
	s := r.launch(t, request)
	if requests := r.cloud.requests; len(requests) != 1 || requests[0].SessionID != s.ID || *requests[0].ProfileID != *request.ProfileID || requests[0].Spec != nil {
		t.Errorf("authorize request %+v", requests)
	}
	reported := s // the report is sent before the session has this step
	reported.Timeline = s.Timeline[:len(s.Timeline)-1]
	if diff := cmp.Diff([]session.Session{reported}, r.cloud.started); diff != "" {
		t.Errorf("reported (-answered +reported):\n%s", diff)
	}
	if s.SlotID == nil || s.ProfileID != *request.ProfileID || s.ProfileName != "Checkout" || s.Status != session.Running ||
		s.BrowserVersion != r.build.Major || s.Seq == 0 || s.DebugPort == 0 || s.DebugPath == "" || s.ID == s.LaunchID {
		t.Errorf("session %+v", s)
	}
	if diff := cmp.Diff(map[string]string{"team": "checkout", "env": "live"}, s.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if err := r.browser(t, s).CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestSpec_ChecksVersionBeforeAuthorize(t *testing.T) {
	r := newFixture(t)
	_, err := r.Launch(t.Context(), launch.Request{Spec: &launch.Spec{BrowserVersion: 91}, Headless: true})
	got := assertKind(t, err, fault.NotInstalled)
	want := []fault.Detail{{Field: "browserVersion", Code: fault.ResourceNotFound, Message: "is not installed", Received: 91,
		Constraint: map[string]any{"availableVersions": []int{r.build.Major}}}}
	if diff := cmp.Diff(want, got.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	if len(r.cloud.requests) > 0 || len(r.cloud.ends()) > 0 {
		t.Errorf("got authorize requests %v and ends %v", r.cloud.requests, r.cloud.ends())
	}
}

func TestSpec_DefaultsToNewestVersion(t *testing.T) {
	older := builds.Build{Major: 91, Path: "/nowhere"}
	r := newFixture(t, func(o *launch.Options) { o.Builds = fakeBuilds{o.Builds.(fakeBuilds)[0], older} })
	body := struct{ locale string }{"de-DE"}
	s := r.launch(t, launch.Request{Spec: &launch.Spec{Body: body}, Headless: true})
	if request := r.cloud.requests[0]; request.BrowserVersion != r.build.Major || request.Spec != body || request.ProfileID != nil {
		t.Errorf("authorize request %+v", request)
	}
	if s.BrowserVersion != r.build.Major {
		t.Errorf("version %d", s.BrowserVersion)
	}
}

func TestLaunch_ReportsThatNoBrowserIsInstalled(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) { o.Builds = fakeBuilds{} })
	_, err := r.Launch(t.Context(), launch.Request{Spec: &launch.Spec{}})
	got := assertKind(t, err, fault.NotInstalled)
	if versions := got.Details[0].Constraint["availableVersions"]; !cmp.Equal(versions, []int{}) {
		t.Errorf("availableVersions %#v, want an empty list", versions)
	}
}

func TestLaunch_UninstalledVersionReleasesSlot(t *testing.T) {
	r := newFixture(t)
	r.cloud.profile.BrowserVersion = 91
	request := byProfile()
	_, err := r.Launch(t.Context(), request)
	assertKind(t, err, fault.NotInstalled)
	end := r.awaitEnd(t, time.Second)
	if end.SessionID != r.cloud.requests[0].SessionID || end.ProfileID != *request.ProfileID {
		t.Errorf("ended %+v, authorize request %+v", end, r.cloud.requests[0])
	}
}

func TestLaunch_HeadlessOnlyBuildReleasesSlot(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) { o.Builds = fakeBuilds{{Major: 7, Path: "/nowhere"}} })
	r.cloud.profile.BrowserVersion = 7
	request := byProfile()
	request.Headless = false
	_, err := r.Launch(t.Context(), request)
	if details := assertKind(t, err, fault.Validation).Details; len(details) != 1 || details[0].Field != "browser.headless" {
		t.Errorf("details %+v", details)
	}
	if end := r.awaitEnd(t, time.Second); end.SessionID != r.cloud.requests[0].SessionID {
		t.Errorf("ended %+v", end)
	}
}

func TestLaunch_ReportsEachInvalidField(t *testing.T) {
	r := newFixture(t)
	request, zone := byProfile(), "Mars/Olympus"
	request.Override.Args = []string{"--remote-debugging-port=1", "--lang=de", "--no-sandbox"}
	request.Override.TimezoneID = zone
	request.Override.CACertificates = []string{certtest.NewAuthority(t, "Company").PEM(), "text"}
	request.Override.StartURLs = []string{"about:blank", "https://\x1a.example"} // accepted by the pattern of the API document
	_, err := r.Launch(t.Context(), request)
	var fields []string
	for _, d := range assertKind(t, err, fault.Validation).Details {
		fields = append(fields, d.Field)
	}
	if diff := cmp.Diff([]string{"browser.args[0]", "browser.args[2]", "browser.startUrls[1]", "browser.timezoneId", "browser.caCertificates[1]"}, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if len(r.cloud.requests) > 0 {
		t.Error("the cloud got a request")
	}
}

func TestLaunch_StartsNothingWithoutAuthorization(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) { o.Key = session.NewOrganizationKey("the worker's own") })
	running := r.launch(t, byProfile())
	browsers, directories := len(r.browsers()), len(r.directories(t))
	for _, tc := range []struct {
		kind     fault.Kind
		key      string // the caller's key
		reported bool   // the end is reported, because the cloud may hold a slot
	}{
		{fault.PaymentRequired, "", false}, {fault.Unavailable, "", true}, {fault.OwnKeyRefused, "", false}, {fault.NotFound, "", false},
		{fault.Conflict, "", false}, {fault.Unavailable, "unverified", false}, {fault.Unavailable, "the worker's own", true},
	} {
		r.cloud.refusal = fault.New(tc.kind, "no")
		request := byProfile()
		request.OrganizationKey = session.NewOrganizationKey(tc.key)
		_, err := r.Launch(t.Context(), request)
		assertKind(t, err, tc.kind)
		reported := len(r.cloud.endedNow) == 1
		if reported != tc.reported {
			t.Errorf("%d, key %q: end reported: %v, want %v", tc.kind.Status(), tc.key, reported, tc.reported)
		}
		if reported {
			if end := r.awaitEnd(t, time.Second); end.SessionID != r.cloud.requests[len(r.cloud.requests)-1].SessionID {
				t.Errorf("ended %+v", end)
			}
		}
	}
	if got := len(r.directories(t)); got != directories {
		t.Errorf("%d launch directories, want %d", got, directories)
	}
	if got := len(r.browsers()); got != browsers {
		t.Errorf("%d browsers run, want %d", got, browsers)
	}
	if live, _ := r.Sessions.Live(); len(live) != 1 || live[0].ID != running.ID {
		t.Errorf("live %v, want the session that was already running", live)
	}
	if err := r.browser(t, running).CDP().Call(t.Context(), "", "Browser.getVersion", nil, nil); err != nil {
		t.Errorf("the browser that was already running does not answer: %v", err)
	}
}

func TestLaunch_FailureReleasesSlotAndResources(t *testing.T) {
	program := func(t *testing.T, script string) builds.Build {
		path := filepath.Join(testenv.PublicTempDir(t), "chromium")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return builds.Build{Major: 7, Version: "7.0.0.0", Path: path, Headful: true}
	}
	for _, tc := range []struct {
		name, script string
		cancel       bool
		kind         fault.Kind
	}{
		{"it exits", "exit 3", false, fault.Internal},
		{"it hangs", "exec sleep 60", false, fault.Timeout},
		{"its caller disconnects", "exec sleep 60", true, fault.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newFixture(t, func(o *launch.Options) { o.Builds = fakeBuilds{program(t, tc.script)} })
			r.cloud.profile.BrowserVersion, r.cloud.profile.Persist = 7, true
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.cancel {
				time.AfterFunc(200*time.Millisecond, cancel)
			}
			request := byProfile()
			request.Timeout = time.Second
			_, err := r.Launch(ctx, request)
			assertKind(t, err, tc.kind)
			if end := r.awaitEnd(t, time.Second); end.SessionID != r.cloud.requests[0].SessionID || end.ProfileID != *request.ProfileID {
				t.Errorf("ended %+v", end)
			}
			if live, _ := r.Sessions.Live(); len(live) > 0 || len(r.cloud.started) > 0 {
				t.Errorf("live %v, started %v", live, r.cloud.started)
			}
			r.assertNoResourcesLeak(t)
			if claim, err := r.Data.Acquire(t.Context(), launch.DataUse{ProfileID: *request.ProfileID}); err != nil {
				t.Errorf("its data is still in use: %v", err)
			} else {
				claim.Release()
			}
		})
	}
}

func TestLaunch_RefusedStartReportEndsBrowser(t *testing.T) {
	r := newFixture(t)
	r.cloud.onStart = fault.New(fault.PaymentRequired, "All slots of the organization are in use.")
	_, err := r.Launch(t.Context(), byProfile())
	assertKind(t, err, fault.PaymentRequired)
	r.assertNoResourcesLeak(t)
	id := r.cloud.started[0].ID
	r.assertSession(t, id, session.Killed, session.License, nil)
	if end := r.awaitEnd(t, time.Second); end.SessionID != id || end.Reason != session.License {
		t.Errorf("ended %+v", end)
	}
}

func TestShutdown_EndsBrowsersAndWaitsForLaunches(t *testing.T) {
	r := newFixture(t)
	first, second := r.launch(t, byProfile()), r.launch(t, byProfile())
	inside, goOn := make(chan struct{}), make(chan struct{})
	r.cloud.entered = func(context.Context) { close(inside); <-goOn }
	launched := make(chan error, 1)
	go func() {
		_, err := r.Launch(context.WithoutCancel(t.Context()), byProfile())
		launched <- err
	}()
	<-inside
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(context.WithoutCancel(t.Context())) }()
	r.awaitEnd(t, 10*time.Second)
	r.awaitEnd(t, 10*time.Second)
	_, err := r.Launch(t.Context(), byProfile())
	assertKind(t, err, fault.Unavailable)
	select {
	case <-done:
		t.Error("Shutdown did not wait for the launch in progress")
	default:
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-launched
	r.assertNoResourcesLeak(t)
	for _, id := range []uuid.UUID{first.ID, second.ID, r.cloud.requests[2].SessionID} {
		r.assertSession(t, id, session.Killed, session.Drain, nil)
	}
	if n := len(r.cloud.ends()); n != 3 {
		t.Errorf("%d ends were reported, want 3", n)
	}
}

func TestShutdown_StopsWaitingWhenContextEnds(t *testing.T) {
	r := newFixture(t)
	inside, goOn := make(chan struct{}), make(chan struct{})
	r.cloud.entered = func(context.Context) { close(inside); <-goOn }
	r.cloud.refusal = errors.New("no")
	finished := make(chan struct{})
	go func() { defer close(finished); _, _ = r.Launch(context.WithoutCancel(t.Context()), byProfile()) }()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Shutdown(ctx); err == nil {
		t.Error("Shutdown returned no error before everything had ended")
	}
	close(goOn)
	<-finished
}

func TestLaunch_ListsAllParallelLaunches(t *testing.T) {
	r := newFixture(t)
	const n = 4
	errs := make(chan error, n)
	for range n {
		go func() { _, err := r.Launch(context.WithoutCancel(t.Context()), byProfile()); errs <- err }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	live, seq := r.Sessions.Live()
	if len(live) != n || slices.ContainsFunc(live, func(s session.Session) bool { return s.Seq >= seq }) {
		t.Errorf("live %v with number %d", live, seq)
	}
}
