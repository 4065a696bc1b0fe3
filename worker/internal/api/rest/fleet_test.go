package rest_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/api/rest"
)

func TestFleetStatus_ShowsMachineAndSessions(t *testing.T) {
	r := newTestServer(t, "https://edge.example/w/worker-1")
	s := r.add(started)
	r.cloud = rest.CloudContract{Expected: "7.8.9", Actual: "8.0.0", Fit: "incompatible"}
	var got workerapi.FleetStatusResponse
	r.call(t.Context(), t, "GET", "/fleet/status", "", &got)
	d := got.Data
	if d.WorkerId == nil || *d.WorkerId != "worker-1" || d.MachineId != "machine-1" || d.PublicUrl != "https://edge.example/w/worker-1" || d.Draining {
		t.Errorf("identity %+v", d)
	}
	if d.Host.Hostname != "one" || d.Host.Cpus != 1.5 || d.Pressure.MemoryPercent != 100 || d.Pressure.DiskFreeBytes != 5 {
		t.Errorf("host %+v, pressure %+v", d.Host, d.Pressure)
	}
	if d.Capacity.MaxSessions == nil || *d.Capacity.MaxSessions != 8 || d.Capacity.Running != 1 || d.Capacity.Launching != 2 || !d.Capacity.IsAvailable || d.Capacity.Reason != nil {
		t.Errorf("capacity %+v", d.Capacity)
	}
	if len(d.Sessions) != 1 || d.Sessions[0].Id != s.ID || d.Sessions[0].Clients != 0 || len(d.Browsers) != 3 {
		t.Errorf("sessions %+v, browsers %+v", d.Sessions, d.Browsers)
	}
	reason := "no controller"
	if diff := cmp.Diff([]workerapi.IsolationPiece{{Name: "userId", Enabled: true}, {Name: "memoryLimit", Reason: &reason}}, d.Isolation); diff != "" {
		t.Errorf("isolation (-want +got):\n%s", diff)
	}
	pool := workerapi.FleetWarmPool{
		Size: 2, MaxSize: 8, Target: 4, TargetReason: "demand", Demand: []workerapi.WarmDemand{
			{BrowserVersion: 156, Engine: "chromium", Headless: true, LaunchesPerMinute: 90, StartMs: new(int32(540)), Target: 4},
			{BrowserVersion: 156, Engine: "chromium", Headless: true},
		}, Ready: []workerapi.WarmBrowsers{{BrowserVersion: 156, Engine: "chromium", Headless: true, Count: 2}}, Starting: 1, MemoryBytes: 200 << 20,
		WarmLaunches: 41, ColdLaunches: []workerapi.ColdLaunches{{Reason: "args", Count: 1}, {Reason: "persist", Count: 2}}, Died: 3, Stale: 4,
	}
	if diff := cmp.Diff(pool, d.WarmPool); diff != "" {
		t.Errorf("warm pool (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(workerapi.CloudContract{Expected: "7.8.9", Actual: new("8.0.0"), Fit: workerapi.CloudContractFitIncompatible}, d.License.CloudContract); diff != "" {
		t.Errorf("the cloud's contract (-want +got):\n%s", diff)
	}
	if d.License.ReportsWaiting != 2 || d.License.ReportsRejected != 1 {
		t.Errorf("reports: %+v", d.License)
	}
	if !d.License.HasKey || d.License.LastAnswerAt == nil || !d.License.LastAnswerAt.Equal(started) {
		t.Errorf("license %+v", d.License)
	}
}

func TestFleetLive_ShowsFullAndDraining(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	live := func(method, path string) workerapi.FleetLive {
		var got workerapi.FleetLiveResponse
		r.call(t.Context(), t, method, path, "", &got)
		return got.Data
	}
	if got := live("GET", "/fleet/live"); !got.IsAvailable || got.Reason != nil || got.CpuPercent != 12.5 || got.LicenseFullAt != nil {
		t.Errorf("idle: got %+v", got)
	}
	r.fullAt = started
	if got := live("GET", "/fleet/live"); !got.IsAvailable || got.LicenseFullAt == nil || !got.LicenseFullAt.Equal(started) {
		t.Errorf("without free slots: got %+v", got)
	}
	r.unavailable = []httpd.Reason{{Check: "capacity", Code: "memory", Message: "Too little memory."}}
	if got := live("GET", "/fleet/live"); got.IsAvailable || got.Reason == nil || *got.Reason != "memory" {
		t.Errorf("full: %+v", got)
	}
	for _, call := range []string{"POST", "POST"} { // the second call has no effect
		if got := live(call, "/fleet/drain"); got.IsAvailable || !got.Draining || *got.Reason != "draining" {
			t.Errorf("draining: %+v", got)
		}
	}
	var health workerapi.WorkerHealthResponse
	if r.call(t.Context(), t, "GET", "/health", "", &health); health.Data.Status != workerapi.WorkerHealthStatusDraining ||
		health.Data.Isolation.Complete || !slices.Equal(health.Data.Isolation.Missing, []workerapi.IsolationPieceName{"memoryLimit"}) {
		t.Errorf("health %+v", health.Data)
	}
	r.unavailable = nil
	if got := live("DELETE", "/fleet/drain"); !got.IsAvailable || got.Draining {
		t.Errorf("resumed: %+v", got)
	}
}

func TestReadiness_SameAnswerOnEveryRoute(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	assert := func(want int, reason *string, state string) {
		t.Helper()
		var failed failure
		answer := r.call(t.Context(), t, "GET", "/readyz", "", &failed)
		if answer.StatusCode != want {
			t.Errorf("/readyz: got %d, want %d", answer.StatusCode, want)
		}
		if reason != nil && (len(failed.Error.Details) != len(r.unavailable) || failed.Error.Details[0].Constraint["reason"] != *reason) {
			t.Errorf("/readyz: got %+v, want %q first", failed.Error.Details, *reason)
		}
		var live workerapi.FleetLiveResponse
		r.call(t.Context(), t, "GET", "/fleet/live", "", &live)
		var status workerapi.FleetStatusResponse
		r.call(t.Context(), t, "GET", "/fleet/status", "", &status)
		var health workerapi.WorkerHealthResponse
		r.call(t.Context(), t, "GET", "/health", "", &health)
		for name, got := range map[string]struct {
			available bool
			reason    *workerapi.UnavailableReason
		}{"live": {live.Data.IsAvailable, live.Data.Reason}, "status": {status.Data.Capacity.IsAvailable, status.Data.Capacity.Reason}} {
			if got.available != (want == 200) || !cmp.Equal((*string)(got.reason), reason) {
				t.Errorf("/fleet/%s: got %+v", name, got)
			}
		}
		if string(status.Data.License.State) != state || string(health.Data.License) != state {
			t.Errorf("the license is %s in /fleet/status and %s in /health, want %s", status.Data.License.State, health.Data.License, state)
		}
		if answer := r.call(t.Context(), t, "GET", "/livez", "", nil); answer.StatusCode != 200 {
			t.Errorf("/livez: got %d", answer.StatusCode)
		}
	}
	assert(200, nil, "ok")
	r.state = "key_refused"
	r.unavailable = []httpd.Reason{
		{Check: "license", Code: "key_refused", Message: "The key is refused."}, {Check: "capacity", Code: "max_sessions", Message: "Full."},
	}
	assert(503, new("key_refused"), "key_refused")
}

func TestListBundles_EveryFilter(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	list := func(query string) []workerapi.Bundle {
		var got workerapi.BundleListResponse
		r.call(t.Context(), t, "GET", "/profiles?limit=100&sortOrder=asc&"+query, "", &got)
		return got.Data.Items
	}
	all := list("")
	majors := map[int32]int{}
	for _, b := range all {
		majors[b.BrowserVersion]++
	}
	if len(all) == 0 || majors[156] == 0 || majors[156] != majors[91] || !slices.IsSortedFunc(all, func(a, b workerapi.Bundle) int {
		return slices.Compare([]byte(a.Filename), []byte(b.Filename))
	}) {
		t.Errorf("%d bundles, by version %v", len(all), majors)
	}
	for query, fits := range map[string]func(workerapi.Bundle) bool{
		"filename=Pixel":    func(b workerapi.Bundle) bool { return b.Filename[:5] == "pixel" },
		"browserVersion=91": func(b workerapi.Bundle) bool { return b.BrowserVersion == 91 },
		"os=android":        func(b workerapi.Bundle) bool { return b.Os != nil && *b.Os == "android" },
		"os=windows&windowsVersion=11": func(b workerapi.Bundle) bool {
			return *b.Os == "windows" && *b.WindowsVersion == "11"
		},
		"osArch=arm":               func(b workerapi.Bundle) bool { return *b.OsArch == "arm" },
		"model=pixel&osVersion=14": func(b workerapi.Bundle) bool { return b.Model != nil && *b.OsVersion == "14" },
	} {
		found := list(query)
		if len(found) == 0 || len(found) == len(all) {
			t.Errorf("%s: %d of %d", query, len(found), len(all))
		}
		for _, b := range found {
			if !fits(b) {
				t.Errorf("%s: %+v", query, b)
			}
		}
	}
	var page workerapi.BundleListResponse
	r.call(t.Context(), t, "GET", "/profiles?limit=2&page=2&sortBy=name", "", &page)
	if p := page.Data.Pagination; len(page.Data.Items) != 2 || p.Page != 2 || int(p.Total) != len(all) || !p.HasPrev {
		t.Errorf("page %+v", page.Data.Pagination)
	}
	for _, query := range []string{"os=dos", "windowsVersion=8", "osArch=mips", "browserVersion=x", "sortBy=os", "renderer=", "nonsense=1", "limit=101"} {
		var got failure
		if answer := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", "/profiles?"+query, "", &got); answer.StatusCode != 400 || got.Error.Code != "VALIDATION_ERROR" {
			t.Errorf("%s: %d %+v", query, answer.StatusCode, got)
		}
	}
}

func TestListAndroidModels_OnlyInstalledVersions(t *testing.T) {
	r := newTestServer(t, "http://localhost:3000")
	var got workerapi.AndroidModelsResponse
	r.call(t.Context(), t, "GET", "/profiles/android-models?browserVersion=156", "", &got)
	if len(got.Data.Models) < 5 || got.Data.BrowserVersion != 156 {
		t.Errorf("%+v", got.Data)
	}
	var refused failure
	answer := r.call(t.Context(), t, "GET", "/profiles/android-models?browserVersion=92", "", &refused)
	if answer.StatusCode != 400 || refused.Error.Code != "RESOURCE_NOT_FOUND" || len(refused.Error.Details) != 1 ||
		refused.Error.Details[0].Field != "browserVersion" || refused.Error.Details[0].Code != fault.ResourceNotFound {
		t.Errorf("%d %+v", answer.StatusCode, refused)
	}
	if answer := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", "/profiles/android-models", "", &refused); answer.StatusCode != 400 || refused.Error.Details[0].Code != fault.Required {
		t.Errorf("without a version: %d %+v", answer.StatusCode, refused)
	}
}
