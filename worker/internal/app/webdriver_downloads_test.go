package app_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// downloadList is the value of the command that lists downloads.
type downloadList struct {
	Names []string
	Files []struct {
		Name                                 string
		CreationTime, LastModifiedTime, Size int64
	}
}

// listDownloads lists the downloads until there are this many.
func (d *webDriverSession) listDownloads(t *testing.T, count int) downloadList {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		status, text := d.try(t, "GET", "/se/files", "")
		if status != 200 {
			t.Fatalf("list downloads: %d %s", status, text)
		}
		if got := decode[struct{ Value downloadList }](t, text).Value; len(got.Names) == count {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, want %d downloads", text, count)
		}
	}
}

// download makes the page download addresses, one after the other.
func (d *webDriverSession) download(t *testing.T, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		d.script(t, fmt.Sprintf(`const a = document.createElement("a"); a.href = %q; document.body.append(a); a.click()`, address))
	}
}

// TestWebDriver_ManagesDownloads uses Selenium's commands for the downloads of a session.
func TestWebDriver_ManagesDownloads(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newFileSite(t)
	defer close(site.release)
	d := r.drive(t, map[string]any{"se:downloadsEnabled": true})
	if d.capabilities["se:downloadsEnabled"] != true {
		t.Errorf("got the capabilities %v", d.capabilities)
	}
	d.do(t, "POST", "/url", map[string]any{"url": site.URL})
	d.do(t, "POST", "/se/file", map[string]any{"file": archive(t, "an upload.txt", "x")})
	if empty := d.listDownloads(t, 0); empty.Names == nil || empty.Files == nil {
		t.Errorf("without downloads: %+v", empty)
	}
	before := time.Now().UnixMilli()
	d.download(t, site.URL+"/1000/r%C3%A9sum%C3%A9.txt")
	d.listDownloads(t, 1)
	d.download(t, site.URL+"/2000/r%C3%A9sum%C3%A9.txt", site.URL+"/-100000/unfinished.txt")
	names := []string{"résumé.txt", "résumé (1).txt"}
	got := d.listDownloads(t, 2)
	if !slices.Equal(got.Names, names) {
		t.Errorf("listed %q", got.Names)
	}
	for i, f := range got.Files {
		if f.Name != names[i] || f.Size != int64(1000*(i+1)) || f.CreationTime < before-1000 || f.LastModifiedTime < f.CreationTime-1000 {
			t.Errorf("file %d is %+v", i, f)
		}
	}
	for i, name := range names {
		answer, _ := d.do(t, "POST", "/se/files", map[string]any{"name": name}).(map[string]any)
		if answer["filename"] != name {
			t.Errorf("got the name %v", answer["filename"])
		}
		assertPacked(t, answer["contents"], name, content(1000*(i+1)))
	}
	status, text := d.try(t, "POST", "/se/files", `{"name":"résumé.txt","format":"application/octet-stream"}`)
	if status != 200 || !bytes.Equal(text, content(1000)) {
		t.Errorf("as a stream: %d, %d bytes", status, len(text))
	}
	for body, message := range map[string]string{
		`{"name":"missing.txt"}`: "name must be the name of a complete download", `{"name":"an upload.txt"}`: "name must be the name of a complete download",
		`{"name":"unfinished.txt"}`: "name must be the name of a complete download", `{}`: "name must be the name of a complete download", `{"name":1}`: "name must be a string",
		`{"name":"résumé.txt","format":"text/html"}`: "format must be application/octet-stream", `?`: "name must be a string",
	} {
		status, text := d.try(t, "POST", "/se/files", body)
		assertError(t, body, status, text, 400, "invalid argument", message)
	}
	if value := d.do(t, "DELETE", "/se/files", nil); value != nil {
		t.Errorf("the deletion returned %v", value)
	}
	d.listDownloads(t, 0)
	own, _ := d.capabilities["svc:session"].(map[string]any)
	f := filesOf{r, t, "/sessions/" + own["sessionId"].(string), []string{"X-API-Key", workerKey}}
	if _, left := f.expect(200, "GET", "/files", ""); !strings.Contains(left, "an upload.txt") || strings.Contains(left, "unfinished.txt") {
		t.Errorf("left %s", left)
	}
}

// TestWebDriver_KeepsDownloadsWithBiDi downloads in sessions with WebDriver BiDi, for which
// chromedriver sets the behavior of downloads.
func TestWebDriver_KeepsDownloadsWithBiDi(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newFileSite(t)
	d := r.drive(t, map[string]any{"se:downloadsEnabled": true, "webSocketUrl": true})
	d.do(t, "POST", "/url", map[string]any{"url": site.URL})
	d.download(t, site.URL+"/1000/default.txt")
	d.listDownloads(t, 1)
	b := d.bidi(t)
	created := b.do(t, "browser.createUserContext", map[string]any{})
	opened := b.do(t, "browsingContext.create", map[string]any{"type": "tab", "userContext": created["userContext"]})
	d.do(t, "POST", "/window", map[string]any{"handle": opened["context"]})
	d.do(t, "POST", "/url", map[string]any{"url": site.URL})
	d.download(t, site.URL+"/1000/created.txt")
	d.listDownloads(t, 2)
	names := []string{"default.txt", "created.txt"}
	for name, c := range downloadCommands {
		c.send(t, d, b)
		d.download(t, site.URL+"/1000/"+name)
		names = append(names, name)
		if got := d.listDownloads(t, len(names)).Names; !slices.Equal(got, names) {
			t.Errorf("listed %q, want %q", got, names)
		}
	}
}

// assertPacked fails unless a value is a base64-encoded archive of one compressed file, which
// Selenium for Java needs.
func assertPacked(t *testing.T, value any, name string, want []byte) {
	t.Helper()
	text, _ := value.(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if len(packed.File) != 1 || packed.File[0].Name != name || packed.File[0].Method != zip.Deflate {
		t.Fatalf("%s is packed as %+v", name, packed.File)
	}
	file, err := packed.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v", name, len(got), err)
	}
}

// TestWebDriver_RequiresDownloadsCapability sends the commands without the capability.
func TestWebDriver_RequiresDownloadsCapability(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	for _, capabilities := range []map[string]any{nil, {"se:downloadsEnabled": false}} {
		d := r.drive(t, capabilities)
		if enabled, ok := d.capabilities["se:downloadsEnabled"]; ok { // Selenium for Python looks only for the name
			t.Errorf("%v: the capability is %v", capabilities, enabled)
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			status, text := d.try(t, method, "/se/files", map[bool]string{true: `{"name":"a"}`}[method == "POST"])
			assertError(t, method, status, text, 400, "invalid argument", "se:downloadsEnabled must be true")
		}
		if status, text := d.try(t, "POST", "/url", `{}`); status != 400 { // chromedriver's own refusal
			t.Errorf("a command without its argument: got %d %s", status, text)
		}
	}
	status, text := r.newSession(t, map[string]any{"se:downloadsEnabled": "yes"}, "X-API-Key", workerKey)
	assertError(t, "no flag", status, text, 400, "invalid argument", "se:downloadsEnabled must be true or false")
}
