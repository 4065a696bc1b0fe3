package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// serveMajors starts a worker with the system's browser and those of
// scripts/browsers, and returns the installed versions.
func serveMajors(t *testing.T) (*testWorker, workerapi.BrowserVersions) {
	t.Helper()
	store, err := filepath.Abs("../../../.svc/browsers")
	if err != nil {
		t.Fatal(err)
	}
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.BrowsersDir = store })
	status, text := r.call(t.Context(), t, "GET", "/profiles/versions", "", "X-API-Key", workerKey)
	installed := decode[workerapi.BrowserVersionsResponse](t, text).Data
	if status != 200 || len(installed.Versions) < 3 {
		t.Fatalf("answered %d %s, want three major versions: scripts/browsers", status, text)
	}
	return r, installed
}

// headful returns the versions that can, or cannot, show a window.
func headful(installed workerapi.BrowserVersions, able bool) (versions []sharedapi.BrowserVersion) {
	for _, version := range installed.Versions {
		if able == slices.ContainsFunc(installed.Builds, func(b workerapi.BrowserBuild) bool { return b.BrowserVersion == version && b.Headful }) {
			versions = append(versions, version)
		}
	}
	return versions
}

// tab is a CDP client of one page.
type tab struct {
	conn    *ws.Conn
	session string
	last    int
}

// call makes one CDP call, to the browser before a session is attached.
func (d *tab) call(t *testing.T, method string, params map[string]any, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d.last++
	request := map[string]any{"id": d.last, "method": method, "params": params}
	if d.session != "" {
		request["sessionId"] = d.session
	}
	raw, err := json.Marshal(request)
	if err == nil {
		err = d.conn.Write(ctx, ws.Text, raw)
	}
	var answer struct {
		ID     int
		Result json.RawMessage
		Error  json.RawMessage
	}
	for err == nil && answer.ID != d.last { // the others are events
		if _, raw, err = d.conn.Read(ctx); err == nil {
			err = json.Unmarshal(raw, &answer)
		}
	}
	if err == nil && answer.Error == nil {
		err = json.Unmarshal(answer.Result, into)
	}
	if err != nil || answer.Error != nil {
		t.Fatalf("%s: %v %s", method, err, answer.Error)
	}
}

func (d *tab) eval(t *testing.T, expression string) string {
	t.Helper()
	var answer struct{ Result struct{ Value string } }
	d.call(t, "Runtime.evaluate", map[string]any{"expression": expression}, &answer)
	return answer.Result.Value
}

// assertDrives drives a session over its public URL and checks its version and what a
// page shows.
func assertDrives(t *testing.T, s workerapi.BrowserSession, version sharedapi.BrowserVersion, page string) {
	t.Helper()
	conn, err := ws.Dial(t.Context(), *s.WebSocketDebuggerUrl, nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	d := &tab{conn: conn}
	var info struct{ Product, UserAgent string }
	d.call(t, "Browser.getVersion", nil, &info)
	if product := fmt.Sprintf("Chrome/%d.", version); s.BrowserVersion != version || !strings.Contains(info.Product, product) {
		t.Errorf("session of version %d, the browser is %s, want %d", s.BrowserVersion, info.Product, version)
	}
	if strings.Contains(info.UserAgent, "Headless") != s.Headless {
		t.Errorf("headless %t, the browser has user agent %s", s.Headless, info.UserAgent)
	}
	var target struct{ TargetID, SessionID string }
	d.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	d.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	d.session = target.SessionID
	d.call(t, "Page.navigate", map[string]any{"url": page}, &struct{}{})
	testenv.Eventually(t, "the page's script", func() bool { return d.eval(t, `document.title`) == "6 x 7 = 42" })
	if agent := d.eval(t, `navigator.userAgent`); !strings.Contains(agent, fmt.Sprintf("Chrome/%d.", version)) {
		t.Errorf("the page has user agent %s", agent)
	}
	var shot struct{ Data []byte }
	d.call(t, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	size := picture.Bounds().Size()
	if red, green, blue, _ := picture.At(size.X/2, size.Y/2).RGBA(); size.X < 300 || size.Y < 300 || red>>8 != 1 || green>>8 != 99 || blue>>8 != 200 {
		t.Errorf("got a screenshot of %v with the colour %d %d %d in the middle", size, red>>8, green>>8, blue>>8)
	}
}

// TestLaunch_RunsThreeMajorVersionsSideBySide launches a profile of every installed
// version at the same time and drives each browser.
func TestLaunch_RunsThreeMajorVersionsSideBySide(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `<!doctype html><body style="background: rgb(1, 99, 200)"><script>document.title = "6 x 7 = " + 6 * 7</script>`)
	}))
	t.Cleanup(site.Close)
	r, installed := serveMajors(t)
	for _, headless := range []bool{true, false} {
		versions := installed.Versions
		if !headless {
			versions = headful(installed, true)
		}
		var sessions []workerapi.BrowserSession
		for _, version := range versions {
			sessions = append(sessions, r.session(t, "POST", "/sessions/profile",
				fmt.Sprintf(`{"profileId":%q,"browser":{"headless":%t}}`, r.cloud.Profile(int(version)), headless)))
		}
		r.cloud.Await(t, 0, len(versions))
		for i, version := range versions {
			assertDrives(t, sessions[i], version, site.URL)
		}
		starts := r.cloud.Calls(cloudtest.Start)
		for i, call := range starts[len(starts)-len(versions):] {
			if call.Start.BrowserVersion != versions[i] || call.SessionID != sessions[i].Id {
				t.Errorf("the cloud got version %d for session %s, want %d for %s", call.Start.BrowserVersion, call.SessionID, versions[i], sessions[i].Id)
			}
		}
		for _, s := range sessions {
			r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		}
		r.cloud.Await(t, 0, 0)
	}
}

func TestLaunch_HeadlessOnlyBuildRefusesHeadful(t *testing.T) {
	r, installed := serveMajors(t)
	unable := headful(installed, false)
	if len(unable) == 0 {
		t.Fatal("every version can show a window, want one that cannot: scripts/browsers")
	}
	for _, version := range unable {
		message := fmt.Sprintf("must be true: browser version %d on this worker does not support headful mode", version)
		for name, body := range map[string]string{
			"a profile": fmt.Sprintf(`{"profileId":%q,"browser":{"headless":false}}`, r.cloud.Profile(int(version))),
			"a spec":    fmt.Sprintf(`{"spec":{"browserVersion":%d},"browser":{"headless":false}}`, version),
		} {
			status, text := r.call(t.Context(), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
			got := decode[failure](t, text).Error
			if status != 400 || got.Code != "VALIDATION_ERROR" || len(got.Details) != 1 || got.Details[0].Field != "browser.headless" || got.Details[0].Message != message {
				t.Errorf("%s of version %d: answered %d %s", name, version, status, text)
			}
		}
	}
	r.cloud.Await(t, 0, 0)
}

// TestLaunch_UninstalledVersionListsInstalledVersions is specification 4.3 and 7.3.5.
func TestLaunch_UninstalledVersionListsInstalledVersions(t *testing.T) {
	r, installed := serveMajors(t)
	missing := slices.Max(installed.Versions) + 1
	var all []any
	for _, version := range installed.Versions {
		all = append(all, float64(version))
	}
	for name, body := range map[string]string{
		"a profile": fmt.Sprintf(`{"profileId":%q}`, r.cloud.Profile(int(missing))),
		"a spec":    fmt.Sprintf(`{"spec":{"browserVersion":%d}}`, missing),
	} {
		status, text := r.call(t.Context(), t, "POST", "/sessions/profile", body, "X-API-Key", workerKey)
		got := decode[failure](t, text)
		if status != 400 || got.Success || got.Error.Code != "RESOURCE_NOT_FOUND" || len(got.Error.Details) != 1 {
			t.Fatalf("%s: answered %d %s", name, status, text)
		}
		d := got.Error.Details[0]
		if d.Field != "browserVersion" || d.Code != "RESOURCE_NOT_FOUND" || d.Received != float64(missing) {
			t.Errorf("%s: detail %+v", name, d)
		}
		if diff := cmp.Diff(map[string]any{"availableVersions": all}, d.Constraint); diff != "" {
			t.Errorf("%s: constraint (-want +got):\n%s", name, diff)
		}
	}
	r.cloud.Await(t, 0, 0)
}
