package browser_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
)

// pageRecorder serves pages that report what scripts observe: in a page, in frames of
// the same and another site, in all kinds of workers, and in a popup.
type pageRecorder struct {
	*httptest.Server

	mu           sync.Mutex
	observations map[string]any
}

func newPageRecorder(t *testing.T) *pageRecorder {
	t.Helper()
	o := &pageRecorder{observations: map[string]any{}}
	o.Server = httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(o.Close)
	return o
}

func (o *pageRecorder) serve(w http.ResponseWriter, req *http.Request) {
	name := strings.TrimPrefix(req.URL.Path, "/")
	if name == "favicon.ico" {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Accept-CH", "Sec-CH-UA-Full-Version-List, Sec-CH-Viewport-Width, Sec-CH-DPR, Sec-CH-Prefers-Color-Scheme, Sec-CH-Device-Memory")
	if what, ok := strings.CutPrefix(name, "tell/"); ok {
		var value any
		_ = json.NewDecoder(req.Body).Decode(&value)
		o.record(what, value)
		o.record(what+" reports with", headers(req))
		w.Header().Set("Access-Control-Allow-Origin", "*")
		return
	}
	o.record(name+" is requested with", headers(req))
	kind, _, _ := strings.Cut(name, ".")
	if strings.HasSuffix(name, ".js") {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprintf(w, "const name = %q;\n%s\n%s", kind, observeScript, workerScript)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<!doctype html><meta name=viewport content='width=device-width'><body><script>const name = %q;\n%s\n%s</script>", kind, observeScript, pageScript)
}

func headers(req *http.Request) map[string]string {
	found := map[string]string{}
	for name, values := range req.Header {
		value := strings.Join(values, ", ")
		if name == "Content-Length" || strings.Contains(value, "127.0.0.1") || strings.Contains(value, "localhost") {
			continue
		}
		found[name] = value
	}
	return found
}

func (o *pageRecorder) record(what string, value any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.observations[what]; !again {
		o.observations[what] = value
	}
}

// await waits until all these pages have reported.
func (o *pageRecorder) await(t *testing.T, names ...string) {
	t.Helper()
	missing := names
	defer func() {
		if len(missing) > 0 {
			t.Log("no report from", missing)
		}
	}()
	eventually(t, 40*time.Second, "all reports", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		missing = slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return o.observations[name+" reports with"] != nil })
		return len(missing) == 0
	})
}

// observeScript collects what every script can observe. A separate file would be an
// additional request.
const observeScript = `
function look() {
	const n = navigator, intl = Intl.DateTimeFormat().resolvedOptions();
	return {
		agent: n.userAgent, hints: n.userAgentData?.toJSON(), platform: n.platform, language: n.language, languages: n.languages,
		cores: n.hardwareConcurrency, memory: n.deviceMemory, online: n.onLine, driven: n.webdriver,
		locale: intl.locale, zone: intl.timeZone, calendar: intl.calendar, offset: [new Date(2026, 0, 1), new Date(2026, 6, 1)].map(String),
		number: (1234.5).toLocaleString(),
	};
}
async function tell(seen) {
	await fetch('/tell/' + name, {method: 'POST', body: JSON.stringify(seen)});
}
`

const workerScript = `
const now = look();
self.onconnect = () => {};
self.oninstall = event => event.waitUntil(tell(now));
if (name != 'service') tell(now);
`

const pageScript = `
const now = Object.assign(look(), {
	screen: [screen.width, screen.height, screen.availWidth, screen.availHeight, screen.colorDepth, screen.orientation.type],
	ratio: devicePixelRatio, touch: [navigator.maxTouchPoints, 'ontouchstart' in window],
	history: history.length, referrer: document.referrer.replace(/:\d+/, ''),
	navigation: performance.getEntriesByType('navigation')[0].type,
	media: ['(prefers-color-scheme: dark)', '(prefers-reduced-motion)', '(hover)', '(pointer: fine)', '(pointer: coarse)', '(any-hover)',
		'(color-gamut: p3)', '(inverted-colors)', '(forced-colors)', '(display-mode: browser)'].filter(q => matchMedia(q).matches),
	plugins: [...navigator.plugins].map(p => p.name), pdf: navigator.pdfViewerEnabled, chrome: Object.keys(window.chrome ?? {}),
	ink: getComputedStyle(document.body).color,
});
const asked = ['geolocation', 'notifications', 'camera', 'clipboard-read', 'persistent-storage'];
(async () => {
	now.permissions = await Promise.all(asked.map(async a => a + ' ' + (await navigator.permissions.query({name: a})).state));
	now.notifications = Notification.permission;
	now.at = await new Promise(ok => now.permissions[0] != 'geolocation granted' ? ok('') :
		navigator.geolocation.getCurrentPosition(p => ok([p.coords.latitude, p.coords.longitude]), e => ok(e.message)));
	now.full = await navigator.userAgentData?.getHighEntropyValues(['architecture', 'platformVersion', 'uaFullVersion', 'mobile', 'model']);
	while (!innerWidth || !outerWidth) await new Promise(ok => setTimeout(ok, 10)); // out-of-process frames get their size later
	now.window = [innerWidth, innerHeight, outerWidth, outerHeight, screenX, screenY];
	now.portrait = matchMedia('(orientation: portrait)').matches;
	await tell(now);
	if (name != 'start' && name != 'visit') return;
	for (const host of ['127.0.0.1', 'localhost']) {
		const frame = document.createElement('iframe');
		frame.src = location.href.replace(location.hostname, host).replace(name, name + '-frame-' + host.replaceAll('.', '-'));
		document.body.append(frame);
	}
	new Worker(name + '-worker.js');
	new SharedWorker(name + '-shared.js');
	await navigator.serviceWorker.register(name + '-service.js', {scope: './none-' + name});
})();
`

// observe returns all that a browser shows to pages: on its start page, on a page
// that a client opens, and in a popup of that page.
func (o *pageRecorder) observe(t *testing.T, b *browser.Browser) map[string]any {
	t.Helper()
	all := func(page string) []string {
		return []string{page, page + "-frame-127-0-0-1", page + "-frame-localhost", page + "-worker", page + "-shared", page + "-service"}
	}
	o.await(t, all("start")...)
	c := dial(t, b)
	page := c.visit(t, o.URL+"/visit")
	o.await(t, all("visit")...)
	c.eval(t, page, `void window.open('/popup')`, nil)
	o.await(t, "popup")
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.observations)
}
