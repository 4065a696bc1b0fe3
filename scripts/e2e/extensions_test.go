package e2e

import (
	"archive/zip"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// TestExtensions_VisibleToClients loads an extension and connects with Playwright and
// Puppeteer.
func TestExtensions_VisibleToClients(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for name, text := range map[string]string{
		"manifest.json": `{"manifest_version":3,"name":"Notes","version":"1.0","background":{"service_worker":"worker.js"},
			"content_scripts":[{"matches":["http://*/*"],"js":["content.js"],"run_at":"document_end"}]}`,
		"worker.js": `self.answer = 42`, "content.js": `document.title = 'changed'`, "page.html": `<!doctype html><title>a page of the extension</title>`,
	} {
		f, err := w.Create(name)
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
	stored, err := env.worker.api.CreateExtensionWithBodyWithResponse(t.Context(), "application/octet-stream", &packed)
	requireAnswer(t, err, stored, http.StatusCreated)
	extension := stored.JSON201.Data
	profile := env.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: env.worker.newestVersion(t)})
	request := env.newLaunchRequest(t, true)
	request.ProfileId = &profile
	request.Browser.Extensions = &[]string{extension.Id}
	session := env.worker.launch(t, request)
	site, origin := servePage(t), "chrome-extension://"+extension.ChromiumId
	for _, client := range []string{"playwright", "puppeteer"} {
		var result struct {
			Worker, Refusal string
			Titles          []string
		}
		runScript(t, "extension", map[string]any{"client": client, "endpoint": *session.WebSocketDebuggerUrl, "url": site, "page": origin + "/page.html"}, &result)
		if result.Worker != origin+"/worker.js" || strings.Join(result.Titles, ", ") != "changed, a page of the extension" ||
			!strings.Contains(result.Refusal, "Extensions are loaded at the launch only") {
			t.Errorf("%s: %+v", client, result)
		}
	}
}
