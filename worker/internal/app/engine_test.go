package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func TestEngine_HeadlessShell(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	_, text := r.call(t.Context(), t, "GET", "/profiles/versions", "", "X-API-Key", workerKey)
	engines := map[workerapi.BrowserEngine]workerapi.BrowserBuild{}
	for _, build := range decode[workerapi.BrowserVersionsResponse](t, text).Data.Builds {
		if int(build.BrowserVersion) == r.version {
			engines[build.Engine] = build
		}
	}
	shell, whole := engines["headless-shell"], engines["chromium"]
	shell.FullVersion, whole.FullVersion = "", ""
	if diff := cmp.Diff([]workerapi.BrowserBuild{
		{BrowserVersion: whole.BrowserVersion, Engine: "chromium", Headful: true, Devtools: true, Extensions: true, Screencast: true},
		{BrowserVersion: whole.BrowserVersion, Engine: "headless-shell", Screencast: true},
	}, []workerapi.BrowserBuild{whole, shell}); diff != "" {
		t.Errorf("builds (-want +got), scripts/need headless-shell installs the second:\n%s", diff)
	}
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"engine":"headless-shell"}}`, r.cloud.Profile(r.version)))
	if s.Engine != "headless-shell" || s.DevtoolsFrontendUrl != nil {
		t.Errorf("session %+v", s)
	}
	d := openTab(t, *s.WebSocketDebuggerUrl)
	if got := d.eval(t, `navigator.userAgentData ? 'page' : 'no page'`); got == "" {
		t.Error("the page does not answer")
	}
	path := "/browsers/" + s.LaunchId.String()
	for _, file := range []string{"/screenshot", "/pdf"} {
		if status, text := r.call(t.Context(), t, "GET", path+file, "", "X-API-Key", workerKey); status != http.StatusOK {
			t.Errorf("%s: %d %s", file, status, text)
		}
	}
	if got := r.refused(t.Context(), t, http.StatusNotFound, "GET", path+"/devtools", ""); got != "" {
		t.Errorf("DevTools: %s", got)
	}
	over := decode[workerapi.BrowserSessionListResponse](t, func() []byte {
		_, text := r.call(t.Context(), t, "GET", "/sessions?status=running", "", "X-API-Key", workerKey)
		return text
	}()).Data.Items
	if len(over) != 1 || over[0].Engine != "headless-shell" {
		t.Errorf("sessions %+v", over)
	}
}

func TestEngine_RefusesWhatItCannotDo(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	plain := r.cloud.Profile(r.version)
	dark := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.ColorScheme = new(sharedapi.ColorScheme("dark")) })
	persist := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.Persist = true })
	stored := r.store(t, packExtension(t))
	for name, test := range map[string]struct {
		profile       fmt.Stringer
		browser, want string
	}{
		"window":        {plain, `"headless":false`, "browser.headless must be true: the engine headless-shell has no windows\n"},
		"extension":     {plain, fmt.Sprintf(`"extensions":[%q]`, stored.Id), "browser.extensions must be empty: the engine headless-shell has no extensions\n"},
		"color scheme":  {plain, `"colorScheme":"dark"`, "browser.colorScheme must not be dark: the engine headless-shell does not support it\n"},
		"dark profile":  {dark, `"headless":true`, "browser.colorScheme must not be dark, also in the profile: the engine headless-shell does not support it\n"},
		"data to keep":  {persist, `"headless":true`, "browser.engine must be chromium: the profile keeps its data (persist), which another engine cannot read\n"},
		"two at a time": {plain, fmt.Sprintf(`"headless":false,"extensions":[%q]`, stored.Id), "browser.headless must be true"},
	} {
		t.Run(name, func(t *testing.T) {
			body := fmt.Sprintf(`{"profileId":%q,"browser":{"engine":"headless-shell",%s}}`, test.profile, test.browser)
			got := r.refused(t.Context(), t, http.StatusBadRequest, "POST", "/sessions/profile", body)
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("refused with %q, want %q", got, test.want)
			}
		})
	}
	r.cloud.Await(t, 0, 0)
}

func TestEngine_Automatic(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.AutoEngine, c.WarmPool = true, []int{1} })
	r.awaitReady(t)
	if ready := r.pool(t).Ready; ready[0].Engine != "headless-shell" {
		t.Errorf("warm browsers %+v", ready)
	}
	_, text := r.call(t.Context(), t, "GET", "/metrics", "", "X-API-Key", workerKey)
	for _, line := range []string{`svc_worker_warm_browsers{engine="chromium"} 0`, `svc_worker_warm_browsers{engine="headless-shell"} 1`} {
		if !strings.Contains(string(text), line) {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	plain := r.cloud.Profile(r.version)
	persist := r.cloud.Profile(r.version, func(c *cloudapi.ProfileConfig) { c.Persist = true })
	for name, test := range map[string]struct {
		profile fmt.Stringer
		browser string
		want    workerapi.BrowserEngine
	}{
		"nothing else": {plain, `{}`, "headless-shell"},
		"chromium":     {plain, `{"engine":"chromium"}`, "chromium"},
		"window":       {plain, `{"headless":false}`, "chromium"},
		"color scheme": {plain, `{"colorScheme":"dark"}`, "chromium"},
		"data to keep": {persist, `{}`, "chromium"},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":%s}`, test.profile, test.browser))
			if s.Engine != test.want {
				t.Errorf("engine %s, want %s", s.Engine, test.want)
			}
			r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		})
	}
}

// TestEngine_WebDriver drives a headless shell with chromedriver.
func TestEngine_WebDriver(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	d := r.drive(t, map[string]any{"svc:options": map[string]any{"profileId": r.cloud.Profile(r.version), "browser": map[string]any{"engine": "headless-shell"}}})
	d.do(t, "POST", "/url", map[string]any{"url": "data:text/html,<title>driven</title>"})
	if title := d.do(t, "GET", "/title", nil); title != "driven" {
		t.Errorf("title %v", title)
	}
	d.do(t, "DELETE", "", nil)
}
