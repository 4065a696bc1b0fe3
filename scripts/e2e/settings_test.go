package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// fingerprint contains the properties of a browser that a page can read.
type fingerprint struct {
	UserAgent  string              `json:"userAgent"`
	Language   string              `json:"language"`
	Timezone   string              `json:"timezone"`
	Number     string              `json:"number"` // 1234.5 in the browser's language
	Viewport   []int               `json:"viewport"`
	Scheme     string              `json:"scheme"`
	Permission string              `json:"permission"`
	Position   any                 `json:"position"`
	Title      string              `json:"title"`
	Headers    map[string][]string `json:"headers"`
}

func readFingerprint(t *testing.T, s workerapi.BrowserSession, page string) fingerprint {
	t.Helper()
	var result fingerprint
	runScript(t, "settings", map[string]any{"endpoint": *s.WebSocketDebuggerUrl, "url": page}, &result)
	return result
}

const (
	profileAgent  = "Mozilla/5.0 (X11; Linux x86_64) ProfileAgent/1.0"
	overrideAgent = "Mozilla/5.0 (X11; Linux x86_64) OverrideAgent/2.0"
)

// germanProfile sets all properties that a page can read.
func germanProfile(version int32) cloudapi.CreateProfileRequest {
	return cloudapi.CreateProfileRequest{
		Name: "Checkout in German", BrowserVersion: version,
		UserAgent: new(profileAgent), Locale: new("de-DE"), TimezoneId: new("Asia/Tokyo"),
		Viewport:    &sharedapi.ScreenSize{Width: 813, Height: 611},
		Geolocation: &sharedapi.Geolocation{Latitude: 52.52, Longitude: 13.405},
		Permissions: &sharedapi.Permissions{"geolocation"}, ColorScheme: new(sharedapi.ColorScheme("dark")),
		ExtraHTTPHeaders: &sharedapi.ExtraHttpHeaders{"X-Test-Run": "nightly"},
	}
}

func TestSettings_LaunchOverridesProfile(t *testing.T) {
	t.Parallel()
	env, page := newTestEnv(t, completeBrowsers), servePage(t)
	id := env.profile(t, germanProfile(env.worker.newestVersion(t)))
	profile := fingerprint{
		UserAgent: profileAgent, Language: "de-DE", Timezone: "Asia/Tokyo", Number: "1.234,5", Viewport: []int{813, 611},
		Scheme: "dark", Permission: "granted", Position: []any{52.52, 13.405}, Title: pageTitle,
	}
	overridden := profile
	overridden.UserAgent, overridden.Language, overridden.Number = overrideAgent, "fr-FR", "1\u202f234,5"
	overridden.Timezone, overridden.Viewport, overridden.Scheme = "America/St_Johns", []int{722, 544}, "light"
	overridden.Position = []any{-33.9, 151.2}
	override := workerapi.BrowserSettings{
		UserAgent: new(overrideAgent), Locale: new("fr-FR"), TimezoneId: new("America/St_Johns"),
		Viewport: &sharedapi.Size{Width: 722, Height: 544}, ColorScheme: new(sharedapi.ColorScheme("light")),
		Geolocation: &sharedapi.Geolocation{Latitude: -33.9, Longitude: 151.2},
	}
	for _, c := range []struct {
		name     string
		browser  workerapi.BrowserSettings
		headless bool
		want     fingerprint
	}{
		{"profile settings, headless", workerapi.BrowserSettings{}, true, profile},
		{"profile settings, headful", workerapi.BrowserSettings{}, false, profile},
		{"launch settings", override, true, overridden},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.browser.Headless = &c.headless
			session := env.worker.launch(t, workerapi.LaunchProfileRequest{ProfileId: &id, Browser: &c.browser})
			result := readFingerprint(t, session, page)
			env.worker.killSession(t, session.Id)
			headers := http.Header(result.Headers)
			result.Headers = nil
			if diff := cmp.Diff(c.want, result); diff != "" {
				t.Errorf("fingerprint (-want +got):\n%s", diff)
			}
			for name, want := range map[string]string{"X-Test-Run": "nightly", "User-Agent": c.want.UserAgent} {
				if got := headers.Get(name); got != want {
					t.Errorf("the header %s is %q, want %q", name, got, want)
				}
			}
			if got := headers.Get("Accept-Language"); !strings.HasPrefix(got, c.want.Language) {
				t.Errorf("Accept-Language is %q, want %s first", got, c.want.Language)
			}
		})
	}
}

// startAuthProxy starts a proxy that requires the credentials. It forwards all
// requests to one server, regardless of their host.
func startAuthProxy(t *testing.T, username, password, destination string) (address string, passed *atomic.Int64) {
	t.Helper()
	target, err := url.Parse(destination)
	if err != nil {
		t.Fatal(err)
	}
	passed = &atomic.Int64{}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set("X-Asked-For", r.In.Host)
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != want {
			w.Header().Set("Proxy-Authenticate", `Basic realm="the test"`)
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		passed.Add(1)
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, passed
}

func TestSettings_ProxyWithCredentials(t *testing.T) {
	t.Parallel()
	env, page := newTestEnv(t), servePage(t)
	const host = "http://shop.example/" // only reachable through the proxy
	first, throughFirst := startAuthProxy(t, "robot", "s3cret:with@signs", page)
	second, throughSecond := startAuthProxy(t, "other", "different", page)
	id := env.profile(t, cloudapi.CreateProfileRequest{
		BrowserVersion: env.worker.newestVersion(t),
		Proxy: &sharedapi.ProxySettings{
			Server: first, Username: new("robot"), Password: new("s3cret:with@signs"), Bypass: new("<-loopback>"), // use the proxy for this machine, too
		},
	})
	t.Run("credentials of the profile", func(t *testing.T) {
		session := env.worker.launch(t, workerapi.LaunchProfileRequest{ProfileId: &id})
		defer env.worker.killSession(t, session.Id)
		result := readFingerprint(t, session, host)
		if result.Title != pageTitle || http.Header(result.Headers).Get("X-Asked-For") != "shop.example" || throughFirst.Load() == 0 {
			t.Errorf("saw %+v, %d requests through the proxy", result, throughFirst.Load())
		}
		before := throughFirst.Load()
		if assertDrivable(t, session, page); throughFirst.Load() == before {
			t.Error("the page on this machine was not loaded through the proxy")
		}
	})
	t.Run("credentials of the launch", func(t *testing.T) {
		before := throughFirst.Load()
		override := json.RawMessage(fmt.Sprintf(`{"server":%q,"username":"other","password":"different"}`, second))
		session := env.worker.launch(t, workerapi.LaunchProfileRequest{ProfileId: &id, ProxyOverride: override})
		defer env.worker.killSession(t, session.Id)
		if result := readFingerprint(t, session, host); result.Title != pageTitle || throughSecond.Load() == 0 || throughFirst.Load() != before {
			t.Errorf("saw %+v; %d requests to the first proxy, %d to the second", result, throughFirst.Load()-before, throughSecond.Load())
		}
	})
	t.Run("without credentials", func(t *testing.T) {
		before := throughFirst.Load() + throughSecond.Load()
		session := env.worker.launch(t, workerapi.LaunchProfileRequest{ProfileId: &id, ProxyOverride: json.RawMessage("null")})
		defer env.worker.killSession(t, session.Id)
		assertDrivable(t, session, page)
		if now := throughFirst.Load() + throughSecond.Load(); now != before {
			t.Errorf("%d requests went through a proxy", now-before)
		}
	})
}
