package profiledata_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// shop is a page that uses every kind of storage. Its functions return text.
const shop = `<!doctype html><title>shop</title><script>
const opened = () => new Promise((ok, no) => {
  const open = indexedDB.open('kept', 1)
  open.onupgradeneeded = () => open.result.createObjectStore('things')
  open.onsuccess = () => ok(open.result); open.onerror = no
})
const done = request => new Promise((ok, no) => { request.onsuccess = () => ok(request.result); request.onerror = no })

async function write(value) {
  await fetch('/login')
  document.cookie = 'seen=' + value + '; max-age=3600'
  localStorage.setItem('kept', value)
  await done((await opened()).transaction('things', 'readwrite').objectStore('things').put(value, 'thing'))
  await navigator.serviceWorker.register('/worker.js')
  await navigator.serviceWorker.ready
  await (await caches.open('kept')).put('/thing', new Response(value))
  const file = await (await (await navigator.storage.getDirectory()).getFileHandle('thing', {create: true})).createWritable()
  await file.write(value)
  await file.close()
  return 'written'
}

async function read() {
  const directory = await navigator.storage.getDirectory()
  return JSON.stringify({
    cookie: document.cookie, user: await (await fetch('/user')).text(), localStorage: localStorage.getItem('kept'),
    indexedDB: await done((await opened()).transaction('things').objectStore('things').get('thing')),
    worker: (await navigator.serviceWorker.getRegistrations())[0]?.active?.scriptURL.split('/').pop(),
    cache: await (await caches.match('/thing'))?.text(),
    file: await (await (await directory.getFileHandle('thing')).getFile()).text(),
    notifications: (await navigator.permissions.query({name: 'notifications'})).state,
  })
}
</script>`

func startShop(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/visited", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, shop)
	})
	mux.HandleFunc("/worker.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, "self.addEventListener('fetch', () => {})")
	})
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "login", Value: "ann", Path: "/", HttpOnly: true, MaxAge: 3600})
	})
	mux.HandleFunc("/user", func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("login"); err == nil {
			_, _ = io.WriteString(w, c.Value)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// visit launches a browser of the profile, runs a script in the shop's page, and ends
// the browser as the worker does.
func visit(t *testing.T, r *fixture, launcher *browser.Launcher, build builds.Build, address, script string) string {
	t.Helper()
	c := r.claim(t)
	defer c.Release()
	b, err := launcher.Launch(t.Context(), browser.Spec{
		LaunchID: uuid.NewString(),
		Build:    build,
		Headless: true,
		Data:     c,
		Options:  settings.Options{StartURLs: []string{address + "/visited"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	result := evaluate(t, b, script)
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return result
}

// evaluate runs a script in the page once the page is loaded.
func evaluate(t *testing.T, b *browser.Browser, script string) (text string) {
	t.Helper()
	type values map[string]any
	testenv.Eventually(t, "the page answers", func() bool {
		var targets struct {
			TargetInfos []struct{ TargetID, Type string }
		}
		if err := b.CDP().Call(t.Context(), "", "Target.getTargets", nil, &targets); err != nil {
			t.Fatal(err)
		}
		for _, target := range targets.TargetInfos {
			if target.Type != "page" {
				continue
			}
			var attached struct{ SessionID string }
			var answer struct {
				Result           struct{ Value string }
				ExceptionDetails json.RawMessage
			}
			if err := b.CDP().Call(t.Context(), "", "Target.attachToTarget", values{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
				t.Fatal(err)
			}
			err := b.CDP().Call(t.Context(), attached.SessionID, "Runtime.evaluate",
				values{"expression": "typeof read == 'function' ? " + script + " : ''", "awaitPromise": true, "returnByValue": true}, &answer)
			if err != nil || answer.ExceptionDetails != nil {
				t.Fatalf("%s: %v %s", script, err, answer.ExceptionDetails)
			}
			text = answer.Result.Value
		}
		return text != ""
	})
	return text
}

func TestChromium_DataSurvivesSaveAndRestore(t *testing.T) {
	found, err := builds.NewFinder(builds.FindOptions{}).Find(t.Context())
	if err != nil || len(found) == 0 {
		t.Fatalf("no Chromium is installed; this test needs one (%v)", err)
	}
	launcher, err := browser.NewLauncher(browser.Options{Dir: filepath.Join(testenv.PublicTempDir(t), "launches")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = launcher.Close() })
	address, r := startShop(t), newFixture(t)
	granted := fmt.Sprintf(`{"profile":{"content_settings":{"exceptions":{"notifications":{"%s,*":{"setting":1}}}}}}`, address)
	r.save(t, tree{"Default": dir(), "Default/Preferences": file(granted)}) // as if a user had clicked "Allow"

	if got := visit(t, r, launcher, found[0], address, "write('kept')"); got != "written" {
		t.Fatal(got)
	}
	want := map[string]string{
		"cookie": "seen=kept", "user": "ann", "localStorage": "kept", "indexedDB": "kept", "worker": "worker.js", "cache": "kept", "file": "kept",
		"notifications": "granted",
	}
	for range 2 {
		got := map[string]string{}
		if err := json.Unmarshal([]byte(visit(t, r, launcher, found[0], address, "read()")), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the page reports (-want +got):\n%s", diff)
		}
	}
	data := r.restored(t)
	if !strings.Contains(data["Default/History"].Text, address+"/visited") {
		t.Error("the history does not have the page")
	}
	for name := range data {
		for _, gone := range []string{"/Cache/", "GPUCache", "Singleton", "DevToolsActivePort", "LOCK"} {
			if strings.Contains(name, gone) {
				t.Errorf("%s was kept", name)
			}
		}
	}
	newest, err := r.Versions(t.Context(), profileID)
	if err != nil || len(newest) != 3 || time.Since(newest[0].SavedAt) > time.Minute {
		t.Fatalf("versions %+v, %v", newest, err)
	}
	t.Logf("%d entries, %d bytes, %d added", newest[0].Entries, newest[0].Content, newest[0].Size)
	if newest[0].Content > 4<<20 {
		t.Error("the snapshot is larger than expected")
	}
}
