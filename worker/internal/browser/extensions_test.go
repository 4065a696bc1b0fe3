package browser_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// testExtensionID is Chromium's id of the key in writeExtension.
const testExtensionID = "deimgfigickoihabndojncbpbjbihcej"

// writeExtension writes the test extension, with a key, where only the worker's user can
// read it. Manifest replaces the manifest unless it is empty.
func writeExtension(t *testing.T, manifest string) browser.Extension {
	t.Helper()
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(private, "extension")
	for name, text := range browsertest.ExtensionFiles() {
		if name == "manifest.json" {
			if manifest != "" {
				text = manifest
			}
			text = strings.Replace(text, "{", `{"key":"c3Zj",`, 1)
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return browser.Extension{ChromiumID: testExtensionID, Dir: dir}
}

// extensionSite returns a site and the number of its requests for /data.
func extensionSite(t *testing.T) (address string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/data" {
			requests.Add(1)
			fmt.Fprint(w, "fetched")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>unchanged</title>")
	}))
	t.Cleanup(site.Close)
	return site.URL, requests
}

func TestExtensions_LoadedBeforeTheFirstPage(t *testing.T) {
	for name, test := range map[string]struct {
		newFixture func(*testing.T) *fixture
		headful    bool
	}{
		"isolated":           {newFixture: func(t *testing.T) *fixture { return newIsolatedFixture(t) }},
		"isolated, headful":  {newFixture: func(t *testing.T) *fixture { return newIsolatedFixture(t) }, headful: true},
		"without namespaces": {newFixture: func(t *testing.T) *fixture { return newIsolatedFixture(t, sandbox.PrivateFiles) }},
		"without anything":   {newFixture: newFixture},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.newFixture(t)
			site, requests := extensionSite(t)
			spec := r.spec("extension")
			spec.Headless, spec.Extensions = !test.headful, []browser.Extension{writeExtension(t, "")}
			spec.StartURLs = []string{site + "/#" + site + "/data"}
			b := r.launch(t, spec)
			c := dial(t, b)
			var targets struct {
				TargetInfos []struct{ TargetID, Type, URL, Title string }
			}
			testenv.Eventually(t, "the page to be changed and the service worker to run", func() bool {
				unmarshal(t, c.call(t, "", "Target.getTargets", nil), &targets)
				changed, worker := false, false
				for _, target := range targets.TargetInfos {
					changed = changed || target.Type == "page" && target.Title == "changed"
					worker = worker || target.Type == "service_worker" && target.URL == "chrome-extension://"+testExtensionID+"/worker.js"
				}
				return changed && worker
			})
			testenv.Eventually(t, "the request of the service worker", func() bool { return requests.Load() == 1 })
			browsertest.OpenTab(t, b, "chrome-extension://"+testExtensionID+"/action.html").WaitFor("the action page", "document.title", "action")
		})
	}
}

// TestExtensions_CannotBypassEgress has an extension replace the proxy by a direct
// connection.
func TestExtensions_CannotBypassEgress(t *testing.T) {
	r := newIsolatedFixture(t)
	site, requests := extensionSite(t)
	spec := r.spec("bypass")
	spec.Extensions = []browser.Extension{writeExtension(t, `{"manifest_version":3,"name":"x","version":"1","default_locale":"en","permissions":["proxy"]}`)}
	b := r.launch(t, spec)
	page := browsertest.OpenTab(t, b, site)
	page.WaitFor("the page through the proxy", "document.title", "unchanged")
	page.Navigate("chrome-extension://" + testExtensionID + "/action.html")
	page.WaitFor("the action page", "document.title", "action")
	page.Eval(`chrome.proxy.settings.set({value: {mode: 'direct'}, scope: 'regular'})`)
	page.WaitFor("the change of the proxy", `chrome.proxy.settings.get({}).then(s => s.levelOfControl + ' ' + s.value.mode)`, "controlled_by_this_extension direct")
	page.Navigate("data:text/html,<title>next</title>")
	page.WaitFor("a page", "document.title", "next")
	if text := page.Eval(`fetch('` + site + `/data', {mode: 'no-cors'}).then(() => 'answered', error => String(error))`); !strings.Contains(text, "Failed to fetch") || requests.Load() != 0 {
		t.Errorf("past the proxy: %s, %d requests", text, requests.Load())
	}
}

func TestExtensions_NotWritable(t *testing.T) {
	r := newIsolatedFixture(t)
	spec := r.spec("readonly")
	spec.Extensions = []browser.Extension{writeExtension(t, "")}
	b := r.launch(t, spec)
	file := fmt.Sprintf("/proc/%d/root%s/%s/worker.js", b.PID(), sandbox.ExtensionsDir, testExtensionID)
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("changed"), 0o644); err == nil {
		t.Error("the files of the extension can be written")
	}
}

func TestExtensions_ApplyToOneLaunch(t *testing.T) {
	r := newFixture(t)
	data := newDirectoryData(t)
	for _, extensions := range [][]browser.Extension{{writeExtension(t, "")}, nil} {
		spec := r.spec("once")
		spec.Data, spec.Extensions = data, extensions
		b := r.launch(t, spec)
		var list struct{ Extensions []struct{ ID string } }
		if err := b.CDP().Call(t.Context(), "", "Extensions.getExtensions", nil, &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Extensions) != len(extensions) {
			t.Errorf("with %d extensions, the browser has %v", len(extensions), list.Extensions)
		}
		if err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExtensions_ReportsRefusal(t *testing.T) {
	r := newFixture(t)
	spec := r.spec("refused")
	broken := writeExtension(t, `{"manifest_version":3,"name":"x","version":"1","default_locale":"en","content_scripts":[{"matches":["nowhere"],"js":["scripts/content.js"]}]}`)
	spec.Extensions = []browser.Extension{broken}
	_, err := r.Launch(t.Context(), spec)
	refused, ok := errors.AsType[*browser.ExtensionError](err)
	if !ok || refused.Index != 0 || !strings.Contains(refused.Reason, "content_scripts[0].matches[0]") {
		t.Errorf("error %v", err)
	}
	r.assertNoLeaks(t)
}

// TestExtensions_PolicyHoldsPastRelay loads extensions on a connection that is not intercepted.
func TestExtensions_PolicyHoldsPastRelay(t *testing.T) {
	const proxy = `{"manifest_version":3,"name":"x","version":"1","permissions":["proxy"]}`
	r := newIsolatedFixture(t)
	for name, c := range map[string]struct {
		extensions []browser.Extension // of the launch
		manifests  []string            // that are refused
	}{
		"no extensions": {nil, []string{`{"manifest_version":3,"name":"x","version":"1"}`}},
		"an extension": {[]browser.Extension{writeExtension(t, strings.Replace(proxy, "{", `{"default_locale":"en",`, 1))}, []string{
			proxy, strings.Replace(proxy, "proxy", "debugger", 1), strings.Replace(proxy, "proxy", "nativeMessaging", 1),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := r.spec("policy")
			spec.Extensions = c.extensions
			b := r.launch(t, spec)
			root := fmt.Sprintf("/proc/%d/root", b.PID())
			for _, manifest := range c.manifests {
				dir := t.TempDir()
				if err := errors.Join(os.MkdirAll(root+dir, 0o755), os.WriteFile(root+dir+"/manifest.json", []byte(manifest), 0o644)); err != nil {
					t.Fatal(err)
				}
				if err := b.CDP().Call(t.Context(), "", "Extensions.loadUnpacked", map[string]any{"path": dir}, nil); err == nil || !strings.Contains(err.Error(), "administrator") {
					t.Errorf("%s: %v", manifest, err)
				}
			}
			page := browsertest.OpenTab(t, b, "chrome://policy")
			for policy, value := range map[string]string{"ExtensionSettings": "installation_mode", "NativeMessagingBlocklist": "*"} {
				page.WaitFor("the policy "+policy, fmt.Sprintf(`(function shows(node) {
					return node.textContent?.includes(%q) && node.textContent.includes(%q) || [...node.querySelectorAll("*")].some(e => e.shadowRoot && shows(e.shadowRoot))
				})(document.body)`, policy, value), "true")
			}
			for _, dir := range []string{"/etc/chromium", "/etc/opt/chrome"} {
				if err := os.WriteFile(root+dir+"/policies/managed/zzz-svc.json", nil, 0o644); !errors.Is(err, unix.EROFS) {
					t.Errorf("the policy in %s can be changed: %v", dir, err)
				}
			}
		})
	}
	spec := r.spec("native")
	spec.Extensions = []browser.Extension{writeExtension(t, `{"manifest_version":3,"name":"x","version":"1","default_locale":"en","permissions":["nativeMessaging"]}`)}
	spec.ProxyServer, spec.OnProxyListener = startEgress(t)
	if _, err := r.Launch(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "administrator") {
		t.Errorf("an extension of the launch with a program: %v", err)
	}
}
