package app_test

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestBundles_FiltersAreSpecCriteria launches with each filter of GET /profiles
// (specification 4.3) as criteria and checks that the session has one of the listed
// bundles.
func TestBundles_FiltersAreSpecCriteria(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	version := strconv.Itoa(r.version)
	for name, filter := range map[string]map[string]string{
		"filename":   {"filename": "pixel-9.json"},
		"version":    {"filename": "pixel-9.json", "browserVersion": version},
		"system":     {"os": "macos"},
		"release":    {"os": "android", "osVersion": "15"},
		"Windows":    {"windowsVersion": "7"},
		"processor":  {"os": "windows", "osArch": "arm"},
		"renderer":   {"renderer": "Mali-G715"},
		"model":      {"model": "Galaxy S24 Ultra"},
		"graphics":   {"gpuName": "rtx 3060"},
		"all of one": {"filename": "Windows-11-Desktop.json", "os": "windows", "osVersion": "10.0", "windowsVersion": "11", "osArch": "x86", "renderer": "nvidia", "gpuName": "RTX"},
	} {
		query, spec := url.Values{"limit": {"100"}}, map[string]any{}
		for field, value := range filter {
			query.Set(field, value)
			spec[field] = value
		}
		if filter["browserVersion"] != "" {
			spec["browserVersion"] = r.version
		}
		_, text := r.call(t.Context(), t, "GET", "/profiles?"+query.Encode(), "", "X-API-Key", workerKey)
		listed := map[string]string{}
		for _, b := range decode[workerapi.BundleListResponse](t, text).Data.Items {
			listed[b.Filename] = b.Name
		}
		body, err := json.Marshal(map[string]any{"spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		launched := r.session(t, "POST", "/sessions/profile", string(body))
		read := r.session(t, "GET", "/sessions/"+launched.Id.String(), "")
		if got := launched.Bundle; got == nil || listed[got.Filename] != got.Name || !cmp.Equal(got, read.Bundle) {
			t.Errorf("by %s: got %+v, then %+v, of %v", name, got, read.Bundle, listed)
		} else if filter["filename"] != "" && (!strings.EqualFold(got.Filename, filter["filename"]) || len(listed) != 1) {
			t.Errorf("by %s: got %s, of %v", name, got.Filename, listed)
		}
		r.session(t, "DELETE", "/sessions/"+launched.Id.String(), "")
	}
	if plain := r.launch(t); plain.Bundle != nil {
		t.Errorf("a profile without criteria has the bundle %+v", plain.Bundle)
	}
	for body, want := range map[string]string{
		`{"spec":{"filename":"pixel-9"}}`:                                    `"code":"INVALID_ENUM_VALUE"`,
		`{"spec":{"filename":"pixel-9.json","os":"windows","osArch":"x86"}}`: `conflicts with spec.filename: pixel-9.json has osArch arm`,
		`{"spec":{"filename":"pixel-9.json","windowsVersion":"11"}}`:         `pixel-9.json has no windowsVersion`,
		`{"spec":{"filename":"` + strings.Repeat("x", 129) + `"}}`:           `"code":"TOO_LONG"`,
	} {
		status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
		if status != 400 || !strings.Contains(string(text), want) || !strings.Contains(string(text), `"field":"spec.`) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}
