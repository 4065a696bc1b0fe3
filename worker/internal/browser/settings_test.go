package browser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// newSite serves pages whose first script records the settings that it observes.
func newSite(t *testing.T) *httptest.Server {
	t.Helper()
	page := func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, probe, req.Header.Get("X-Probe"), req.Header.Get("Accept-Language"))
	}
	site := httptest.NewServer(http.HandlerFunc(page))
	t.Cleanup(site.Close)
	return site
}

const probe = `<!doctype html><meta name=viewport content="width=device-width"><script>
window.seen = {
	agent: navigator.userAgent, language: navigator.language, intl: Intl.DateTimeFormat().resolvedOptions().locale,
	zone: Intl.DateTimeFormat().resolvedOptions().timeZone, dark: matchMedia('(prefers-color-scheme: dark)').matches,
	width: innerWidth, height: innerHeight, ratio: devicePixelRatio, touch: navigator.maxTouchPoints,
	header: %q, accept: %q,
}</script>`

type pageProperties struct {
	Agent, Language, Intl, Zone string
	Dark                        bool
	Width, Height               int
	Ratio                       float64
	Touch                       int
	Header, Accept              string
}

func (c client) observe(t *testing.T, session string) pageProperties {
	t.Helper()
	var got *pageProperties
	eventually(t, 10*time.Second, "a loaded page", func() bool {
		c.eval(t, session, `window.seen ?? null`, &got)
		return got != nil
	})
	got.Accept, _, _ = strings.Cut(got.Accept, ",")
	return *got
}

// visit opens a page as client libraries do: it opens a blank page, waits for an
// answer, then navigates.
func (c client) visit(t *testing.T, url string) (session string) {
	t.Helper()
	session = c.open(t, "about:blank")
	c.eval(t, session, `0`, nil)
	c.call(t, session, "Page.navigate", map[string]any{"url": url})
	return session
}

// openMany opens n pages at once and attaches to them afterwards.
func (c client) openMany(t *testing.T, n int, url string) (sessions []string) {
	t.Helper()
	var replies []*cdp.Reply
	for range n {
		r, err := c.Send(t.Context(), "", "Target.createTarget", map[string]any{"url": url})
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, r)
	}
	for _, r := range replies {
		var target struct{ TargetID string }
		if err := r.Wait(t.Context(), &target); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, c.attach(t, target.TargetID))
	}
	return sessions
}

// popup makes the page open another page and attaches to that page.
func (c client) popup(t *testing.T, session, url string) string {
	t.Helper()
	c.eval(t, session, fmt.Sprintf(`void window.open(%q)`, url), nil)
	return c.attach(t, c.awaitPage(t, url))
}

// awaitPage waits for a page at url and returns its target id.
func (c client) awaitPage(t *testing.T, url string) (targetID string) {
	t.Helper()
	eventually(t, 10*time.Second, "a page at "+url, func() bool {
		for _, target := range c.targets(t) {
			if target.Type == "page" && target.URL == url {
				targetID = target.TargetID
			}
		}
		return targetID != ""
	})
	return targetID
}

func phoneSpec(r *fixture, id string) browser.Spec {
	spec := r.spec(id)
	spec.UserAgent = "Test/1.0 (phone)"
	spec.Locale, spec.TimezoneID, spec.ColorScheme = "fr-FR", "Asia/Tokyo", "dark"
	spec.Viewport, spec.DeviceScaleFactor = &settings.Size{Width: 412, Height: 915}, 2.5
	spec.IsMobile, spec.HasTouch = new(true), new(true)
	spec.Geolocation = &settings.Geolocation{Latitude: 48.5, Longitude: 2.25, Accuracy: new(10.0)}
	spec.Permissions = []string{"geolocation"}
	spec.ExtraHTTPHeaders = map[string]string{"X-Probe": "yes"}
	return spec
}

var wantPhone = pageProperties{
	Agent: "Test/1.0 (phone)", Language: "fr-FR", Intl: "fr-FR", Zone: "Asia/Tokyo", Dark: true,
	Width: 412, Height: 915, Ratio: 2.5, Touch: 5, Header: "yes", Accept: "fr-FR",
}

func TestSettings_ApplyBeforeFirstScript(t *testing.T) {
	r := newFixture(t)
	site := newSite(t)
	for _, headless := range []bool{true, false} {
		t.Run(fmt.Sprintf("headless=%t", headless), func(t *testing.T) {
			spec := phoneSpec(r, fmt.Sprintf("phone-%t", headless))
			spec.Headless = headless
			spec.StartURLs = []string{site.URL + "/first", site.URL + "/second"}
			c := dialWorker(t, r.launch(t, spec))
			for _, url := range spec.StartURLs {
				if diff := cmp.Diff(wantPhone, c.observe(t, c.attach(t, c.awaitPage(t, url)))); diff != "" {
					t.Errorf("start URL (-want +got):\n%s", diff)
				}
			}
			page := c.visit(t, site.URL+"/page")
			if diff := cmp.Diff(wantPhone, c.observe(t, page)); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
			var position []float64
			const locate = `new Promise((ok, no) => navigator.geolocation.getCurrentPosition(
				p => ok([p.coords.latitude, p.coords.longitude, p.coords.accuracy]), no))`
			c.eval(t, page, locate, &position)
			if diff := cmp.Diff([]float64{48.5, 2.25, 10}, position); diff != "" {
				t.Errorf("position (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantPhone, c.observe(t, c.popup(t, page, site.URL+"/popup"))); diff != "" {
				t.Errorf("popup (-want +got):\n%s", diff)
			}
			// Many pages at once, without network requests and with: their scripts run before
			// a late attachment could apply settings.
			instant := "data:text/html," + url.PathEscape(fmt.Sprintf(probe, "yes", "fr-FR"))
			for _, url := range []string{instant, site.URL + "/many"} {
				for _, page := range c.openMany(t, testenv.Depth(5, 12), url) {
					if diff := cmp.Diff(wantPhone, c.observe(t, page)); diff != "" {
						t.Errorf("%.20s (-want +got):\n%s", url, diff)
					}
				}
			}
		})
	}
}

// TestDebugPort_AppliesSettingsBeforeFirstScript opens pages with /json/new.
func TestDebugPort_AppliesSettingsBeforeFirstScript(t *testing.T) {
	r := newIsolatedFixture(t)
	site := newSite(t)
	b := r.launch(t, phoneSpec(r, "phone"))
	c := dial(t, b)
	page := site.URL + "/page?a=%20&b"
	var opened []string
	for range 8 { // none is observed before all are open
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("http://127.0.0.1:%d/json/new?%s", b.DebugPort, url.QueryEscape(page)), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var target struct{ ID, URL, WebSocketDebuggerURL string }
		err = json.NewDecoder(answer.Body).Decode(&target)
		answer.Body.Close()
		if err != nil || target.URL != page || target.WebSocketDebuggerURL == "" {
			t.Fatalf("%v: got %+v, want the URL %s", err, target, page)
		}
		opened = append(opened, target.ID)
	}
	for _, id := range opened {
		if diff := cmp.Diff(wantPhone, c.observe(t, c.attach(t, id))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestSettings_WithAttachedClient(t *testing.T) {
	r := newFixture(t)
	site := newSite(t)
	c := dial(t, r.launch(t, phoneSpec(r, "both")))
	events := c.Subscribe(100, "Target.attachedToTarget")
	defer events.Close()
	c.call(t, "", "Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true})
	go func() {
		for e := range events.Events() {
			var a struct{ SessionID string }
			unmarshal(t, e.Params, &a)
			c.Call(t.Context(), a.SessionID, "Runtime.runIfWaitingForDebugger", nil, nil)
		}
	}()
	var context struct{ BrowserContextID string }
	unmarshal(t, c.call(t, "", "Target.createBrowserContext", nil), &context)
	var target struct{ TargetID string }
	unmarshal(t, c.call(t, "", "Target.createTarget",
		map[string]any{"url": "about:blank", "browserContextId": context.BrowserContextID}), &target)
	own := c.attach(t, target.TargetID)
	c.eval(t, own, `0`, nil)
	c.call(t, own, "Page.navigate", map[string]any{"url": site.URL + "/own"})
	if diff := cmp.Diff(wantPhone, c.observe(t, own)); diff != "" {
		t.Errorf("a page of the client's own context (-want +got):\n%s", diff)
	}
	var state string
	c.eval(t, own, `navigator.permissions.query({name: 'geolocation'}).then(p => p.state)`, &state)
	if state != "granted" {
		t.Errorf("geolocation permission is %s, want granted", state)
	}
	if diff := cmp.Diff(wantPhone, c.observe(t, c.popup(t, own, site.URL+"/popup"))); diff != "" {
		t.Errorf("popup (-want +got):\n%s", diff)
	}
	c.call(t, own, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 700, "height": 600, "deviceScaleFactor": 1, "mobile": false})
	var width int
	c.eval(t, own, `innerWidth`, &width)
	if width != 700 {
		t.Errorf("the client's own viewport: width %d, want 700", width)
	}
}

func TestSettings_SwitchesNeedNoAttach(t *testing.T) {
	r := newFixture(t)
	site := newSite(t)
	spec := r.spec("switches")
	spec.UserAgent, spec.Locale, spec.TimezoneID, spec.ColorScheme = "Test/2.0", "en-US", "America/Lima", "light"
	spec.Screen, spec.DeviceScaleFactor = &settings.Size{Width: 1000, Height: 700}, 2
	b := r.launch(t, spec)
	c := dial(t, b)
	page := c.open(t, site.URL+"/")
	got := c.observe(t, page)
	got.Height = 0 // depends on the window's frame
	want := pageProperties{Agent: "Test/2.0", Language: "en-US", Intl: "en-US", Zone: "America/Lima", Width: 1000, Ratio: 2, Accept: "en-US"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var screen []int
	c.eval(t, page, `[screen.width, screen.height]`, &screen)
	if diff := cmp.Diff([]int{1000, 700}, screen); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
	var list struct{ TargetInfos []struct{ Attached bool } }
	if err := b.CDP().Call(t.Context(), "", "Target.getTargets", nil, &list); err != nil {
		t.Fatal(err)
	}
	attached := 0
	for _, info := range list.TargetInfos {
		if info.Attached {
			attached++
		}
	}
	if attached != 1 {
		t.Errorf("got %d attached pages, want only the client's", attached)
	}
}

func TestSettings_NewPagesWait(t *testing.T) {
	r := newFixture(t)
	b := r.launch(t, phoneSpec(r, "waits"))
	attached := b.CDP().Subscribe(10, "Target.attachedToTarget")
	defer attached.Close()
	dial(t, b).open(t, "about:blank")
	var page struct{ WaitingForDebugger bool }
	select {
	case e := <-attached.Events():
		unmarshal(t, e.Params, &page)
	case <-time.After(5 * time.Second):
		t.Fatal("the worker did not attach")
	}
	if !page.WaitingForDebugger {
		t.Error("the page ran before its settings were applied")
	}
}

// TestSettings_EmulateMedia reads media features in the first page, a frame and a popup of a
// cold and of a warm browser.
func TestSettings_EmulateMedia(t *testing.T) {
	r := newFixture(t)
	site := newSite(t)
	for _, warm := range []bool{false, true} {
		spec := r.spec(fmt.Sprintf("media-%t", warm))
		configured := spec
		configured.ReducedMotion, configured.ForcedColors, configured.StartURLs = "reduce", "active", []string{site.URL + "/first"}
		if spec = configured; warm {
			spec = r.spec(configured.LaunchID)
			spec.Warm = true
		}
		b := r.launch(t, spec)
		if warm {
			if err := b.Configure(t.Context(), configured); err != nil {
				t.Fatal(err)
			}
		}
		c := dial(t, b)
		page := c.attach(t, c.awaitPage(t, site.URL+"/first"))
		const show = `(w => [w.matchMedia('(prefers-reduced-motion: reduce)').matches, w.matchMedia('(forced-colors: active)').matches].join())`
		for name, read := range map[string]func() (got string){
			"page": func() (got string) { c.eval(t, page, show+`(window)`, &got); return got },
			"frame": func() (got string) {
				c.eval(t, page, show+`(document.body.appendChild(document.createElement('iframe')).contentWindow)`, &got)
				return got
			},
			"popup": func() (got string) { c.eval(t, c.popup(t, page, site.URL+"/popup"), show+`(window)`, &got); return got },
		} {
			if got := read(); got != "true,true" {
				t.Errorf("warm %t, %s: got %s", warm, name, got)
			}
		}
	}
}
