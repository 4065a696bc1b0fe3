package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/workerapi"
)

// cookieSite records the cookies of its requests.
type cookieSite struct {
	mu      sync.Mutex
	cookies []string
}

func (s *cookieSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/" {
		s.cookies = append(s.cookies, r.Header.Get("Cookie"))
	}
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("<!doctype html><title>" + pageTitle + "</title>"))
}

// last returns the cookies of the last request.
func (s *cookieSite) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cookies[len(s.cookies)-1]
}

// TestState_MovesBetweenLaunchesAndPlaywright moves the state of a browser to other
// launches and to a context of Playwright.
func TestState_MovesBetweenLaunchesAndPlaywright(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	request := env.newLaunchRequest(t, true)
	site := &cookieSite{}
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	url := server.URL + "/"
	const large = 2 << 20 // larger than the bodies of other operations

	first := env.worker.launch(t, request)
	var stored, state struct {
		Cookies []map[string]any
		Origins []map[string]any
	}
	runScript(t, "state", map[string]any{"endpoint": *first.WebSocketDebuggerUrl, "url": url, "fill": large}, &stored)
	text := env.worker.requireRoute(t, first, "/state", http.StatusOK)
	var envelope struct{ Data json.RawMessage }
	if err := json.Unmarshal(text, &envelope); err != nil {
		t.Fatal(err)
	}
	var data workerapi.StorageState
	if err := json.Unmarshal(envelope.Data, &data); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(envelope.Data, &state); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, state); diff != "" {
		t.Errorf("the state differs from Playwright's:\n%s", diff)
	}
	fillMore := `(async () => {
		const open = indexedDB.open('more');
		open.onupgradeneeded = () => open.result.createObjectStore('all').put('x'.repeat(17 << 20), 1);
		await new Promise((resolve) => (open.onsuccess = resolve));
		open.result.close();
	})()`
	runScript(t, "playwright", map[string]any{"endpoint": *first.WebSocketDebuggerUrl, "url": url, "expression": fillMore}, &struct{}{})
	env.worker.requireRoute(t, first, "/state", http.StatusConflict)
	env.worker.requireRoute(t, first, "/state?indexedDB=false", http.StatusOK)
	env.worker.requireRoute(t, first, "/state?indexedDB=maybe", http.StatusBadRequest)
	env.worker.killSession(t, first.Id)
	env.worker.requireRoute(t, first, "/state", http.StatusNotFound)

	want := map[string]any{
		"theme": "dark", "large": float64(large), "cookies": "seen=1", "id": float64(1), "at": "1970-01-01T00:00:00.000Z", "sizes": "1,2",
	}
	read := func(t *testing.T, s workerapi.BrowserSession, state any) {
		t.Helper()
		var got map[string]any
		runScript(t, "state", map[string]any{"endpoint": *s.WebSocketDebuggerUrl, "url": url, "state": state}, &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	for _, headless := range []bool{true, false} {
		again := request
		again.Browser = &workerapi.BrowserSettings{Headless: &headless, State: &data, StartUrls: &[]string{url}}
		launched := env.worker.launch(t, again)
		eventually(t, 10*time.Second, "the first page has the cookie", func() error {
			if got := site.last(); got != "seen=1" {
				return fmt.Errorf("cookies %q", got)
			}
			return nil
		})
		read(t, launched, nil)
		if headless {
			read(t, launched, envelope.Data)
		}
		env.worker.killSession(t, launched.Id)
	}
}

func TestState_RefusesInvalidValues(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	request := env.newLaunchRequest(t, true)
	for name, c := range map[string]struct {
		state workerapi.StorageState
		field string
	}{
		"origin": {workerapi.StorageState{Origins: &[]workerapi.StateOrigin{{Origin: "ftp://example.com", LocalStorage: []workerapi.StateItem{}}}}, "browser.state.origins[0].origin"},
		"cookie": {workerapi.StorageState{Cookies: &[]workerapi.StateCookie{{Name: "__Host-a", Value: "secret-value", Domain: "example.com", Path: "/"}}}, "browser.state.cookies[0]"},
	} {
		request.Browser = &workerapi.BrowserSettings{State: &c.state}
		answer, err := env.worker.api.LaunchProfileWithResponse(t.Context(), request)
		requireAnswer(t, err, answer, http.StatusBadRequest)
		fields := []string{}
		for _, detail := range *answer.JSON400.Error.Details {
			fields = append(fields, detail.Field)
		}
		if !slices.Equal(fields, []string{c.field}) || strings.Contains(string(answer.Body), "secret-value") {
			t.Errorf("%s: %s", name, answer.Body)
		}
	}
	assertNoDirectories(t, env.worker.launches)
}
