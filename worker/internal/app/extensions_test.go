package app_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// packExtension returns a package of the test extension with further permissions.
func packExtension(t *testing.T, permissions ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range browsertest.ExtensionFiles() {
		for _, permission := range permissions {
			text = strings.Replace(text, `"permissions": [`, `"permissions": ["`+permission+`", `, 1)
		}
		f, err := w.Create("extension/" + name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// store stores a package.
func (r *testWorker) store(t *testing.T, packed string) workerapi.Extension {
	t.Helper()
	status, text := r.call(t.Context(), t, "POST", "/extensions", packed, "Content-Type", "application/octet-stream", "X-API-Key", workerKey)
	if status != http.StatusCreated {
		t.Fatalf("POST /extensions: %d %s", status, text)
	}
	return decode[workerapi.ExtensionResponse](t, text).Data
}

// refused sends a request with the worker key that must fail, and returns the details.
func (r *testWorker) refused(ctx context.Context, t *testing.T, want int, method, path, body string, headers ...string) (fields string) {
	t.Helper()
	status, text := r.call(ctx, t, method, path, body, append(headers, "X-API-Key", workerKey)...)
	if status != want {
		t.Fatalf("%s %s: %d %s, want %d", method, path, status, text, want)
	}
	for _, detail := range decode[failure](t, text).Error.Details {
		fields += detail.Field + " " + detail.Message + "\n"
	}
	return fields
}

func TestExtensions_LoadedForALaunch(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>unchanged</title>")
	}))
	t.Cleanup(site.Close)
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.WarmPool = []int{1} })
	stored := r.store(t, packExtension(t, "privacy")) // allowed, because browsers have their own network
	if stored.Name != browsertest.ExtensionName || stored.Version != "1.2.3" {
		t.Errorf("stored %+v", stored)
	}
	profile := r.cloud.Profile(r.version)
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"extensions":[%q]}}`, profile, stored.Id))
	if diff := cmp.Diff(workerapi.BrowserStart{ColdReasons: []string{"extensions"}}, s.Start); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	d := openTab(t, *s.WebSocketDebuggerUrl)
	// The service worker of the extension uses the egress of the launch, which denies the worker's address.
	d.call(t, "Page.navigate", map[string]any{"url": site.URL + "/#" + r.url + "/health"}, &struct{}{})
	testenv.Eventually(t, "the page to be changed", func() bool { return d.eval(t, `document.title`) == "changed" })
	testenv.Eventually(t, "the denial of the egress policy", func() bool {
		return strings.Contains(d.eval(t, `document.documentElement.dataset.fetched ?? ''`), "is denied by the egress policy")
	})
	if status, text := r.call(t.Context(), t, "DELETE", "/extensions/"+stored.Id, "", "X-API-Key", workerKey); status != http.StatusOK {
		t.Fatalf("DELETE: %d %s", status, text)
	}
	d.call(t, "Page.navigate", map[string]any{"url": "chrome-extension://" + stored.ChromiumId + "/action.html"}, &struct{}{})
	testenv.Eventually(t, "the action page of the deleted extension", func() bool { return d.eval(t, `document.title`) == "action" })
	plain := r.launch(t)
	other := openTab(t, *plain.WebSocketDebuggerUrl)
	other.call(t, "Page.navigate", map[string]any{"url": site.URL}, &struct{}{})
	testenv.Eventually(t, "a page without extensions", func() bool { return other.eval(t, `document.title`) == "unchanged" })
}

func TestExtensions_StoreOperations(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	const octets = "application/octet-stream"
	stored := r.store(t, packExtension(t))
	_, text := r.call(t.Context(), t, "GET", "/extensions", "", "X-API-Key", workerKey)
	if diff := cmp.Diff([]workerapi.Extension{stored}, decode[workerapi.ExtensionListResponse](t, text).Data.Items); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	_, text = r.call(t.Context(), t, "GET", "/extensions/"+stored.Id, "", "X-API-Key", workerKey)
	if diff := cmp.Diff(stored, decode[workerapi.ExtensionResponse](t, text).Data); diff != "" {
		t.Errorf("get (-want +got):\n%s", diff)
	}
	unknown := "/extensions/" + strings.Repeat("0", 64)
	invalid := contracttest.AllowInvalidRequest(t.Context())
	r.refused(t.Context(), t, http.StatusNotFound, "GET", unknown, "")
	r.refused(t.Context(), t, http.StatusNotFound, "DELETE", unknown, "")
	for _, method := range []string{"GET", "DELETE"} {
		r.refused(invalid, t, http.StatusBadRequest, method, "/extensions/1", "")
	}
	r.refused(invalid, t, http.StatusBadRequest, "GET", "/extensions?x=1", "")
	if got := r.refused(invalid, t, http.StatusBadRequest, "POST", "/extensions", "no archive", "Content-Type", octets); !strings.HasPrefix(got, "body must be a zip archive") {
		t.Errorf("no archive: %s", got)
	}
	r.refused(invalid, t, http.StatusUnsupportedMediaType, "POST", "/extensions", "text", "Content-Type", "text/plain")
	r.refused(invalid, t, http.StatusRequestEntityTooLarge, "POST", "/extensions", strings.Repeat("x", 64<<20+1), "Content-Type", octets)
	for _, request := range [][2]string{{"POST", "/extensions"}, {"GET", "/extensions"}, {"GET", unknown}, {"DELETE", unknown}} {
		body := ""
		if request[0] == "POST" {
			body = "x"
		}
		if status, text := r.call(t.Context(), t, request[0], request[1], body, "Content-Type", octets); status != http.StatusUnauthorized {
			t.Errorf("%s %s without a key: %d %s", request[0], request[1], status, text)
		}
	}
}

func TestExtensions_RefusedLaunches(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	stored, another := r.store(t, packExtension(t)), r.store(t, packExtension(t, "tabs"))
	profile := r.cloud.Profile(r.version)
	unknown := strings.Repeat("0", 64)
	for name, test := range map[string]struct{ browser, want string }{
		"unknown":     {fmt.Sprintf(`{"extensions":[%q,%q]}`, stored.Id, unknown), "browser.extensions[1] is not an extension of this worker; GET /extensions lists them\n"},
		"twice":       {fmt.Sprintf(`{"extensions":[%q,%[1]q]}`, another.Id), "browser.extensions[1] has the same Chromium id as browser.extensions[0]: a browser loads one of them\n"},
		"not an id":   {`{"extensions":["x"]}`, "browser.extensions[0] must"},
		"too many":    {`{"extensions":[` + strings.Repeat(`"`+unknown+`",`, 20) + `"` + unknown + `"]}`, "browser.extensions must"},
		"disabled":    {fmt.Sprintf(`{"extensions":[%q],"args":["--disable-extensions"]}`, stored.Id), "browser.extensions must be empty: the args"},
		"load switch": {`{"args":["--load-extension=/tmp/mine"]}`, "browser.args[0] --load-extension is not allowed: loading other code or programs is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			body := fmt.Sprintf(`{"profileId":%q,"browser":%s}`, profile, test.browser)
			got := r.refused(contracttest.AllowInvalidRequest(t.Context()), t, http.StatusBadRequest, "POST", "/sessions/profile", body)
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("refused with %q, want %q", got, test.want)
			}
		})
	}
	r.cloud.Await(t, 0, 0)
}
