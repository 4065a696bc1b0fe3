package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/contracttest"
)

// TestDownload_SelectsPlatform: without os and arch, the download selects the only
// build or the preferred one, or asks for them.
func TestDownload_SelectsPlatform(t *testing.T) {
	a := newReleasesAPI(t)
	a.publish("150.0.1.1", "arm64", 100)
	a.publish("151.0.1.1", "arm64", 100)
	a.publish("151.0.1.1", "x86_64", 100)
	a.publish("152.0.1.1", "x86_64", 100)
	a.publish("152.0.1.1", "arm64", 100)
	_, err := a.db.Exec(`UPDATE chromium_releases SET os = 'macos' WHERE version = '152.0.1.1' AND arch = 'arm64'`)
	must(t, err)
	a.publish("153.0.1.1", "x86_64", 100)
	a.publish("153.0.1.1", "arm64", 100)
	_, err = a.db.Exec(`UPDATE chromium_releases SET os = CASE arch WHEN 'arm64' THEN 'macos' ELSE 'windows' END WHERE version = '153.0.1.1'`)
	must(t, err)
	for query, want := range map[string]string{
		"150.0.1.1/download":                      "linux-arm64", // the only build
		"150.0.1.1/download?os=linux":             "linux-arm64",
		"151.0.1.1/download":                      "linux-x86_64", // the preferred build
		"151.0.1.1/download?arch=arm64":           "linux-arm64",
		"152.0.1.1/download":                      "linux-x86_64",
		"152.0.1.1/download?os=macos":             "macos-arm64",
		"152.0.1.1/download?arch=arm64":           "macos-arm64",
		"153.0.1.1/download?os=windows":           "windows-x86_64",
		"153.0.1.1/download?arch=arm64":           "macos-arm64",
		"153.0.1.1/download?os=macos&arch=arm64":  "macos-arm64",
		"151.0.1.1/download?os=linux&arch=x86_64": "linux-x86_64",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			res, body := a.download(t.Context(), method, query, a.worker)
			if got := res.Header.Get("Content-Disposition"); res.StatusCode != 200 || !strings.HasSuffix(got, "-"+want+`.zip"`) {
				t.Errorf("%s %s: %d %s %.200s, want %s", method, query, res.StatusCode, got, body, want)
			}
		}
	}
	for _, query := range []string{"149.0.1.1/download", "150.0.1.1/download?arch=x86_64", "153.0.1.1/download?os=linux"} {
		if res, body := a.download(t.Context(), http.MethodGet, query, a.worker); res.StatusCode != 404 {
			t.Errorf("%s: %d %.200s, want 404", query, res.StatusCode, body)
		}
	}
	res, body := a.download(contracttest.AllowInvalidRequest(t.Context()), http.MethodGet, "153.0.1.1/download", a.worker)
	r := read(t, res, body)
	r.want(t, 400, "VALIDATION_ERROR")
	if diff := cmp.Diff([]string{"os REQUIRED", "arch REQUIRED"}, r.fields); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	for _, allowed := range []string{`{"allowed":["macos","windows"]}`, `{"allowed":["arm64","x86_64"]}`} {
		if !strings.Contains(r.body, allowed) {
			t.Errorf("%s does not contain %s", r.body, allowed)
		}
	}
}
