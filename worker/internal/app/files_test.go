package app_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// fileSite serves /<size>/<name> as a download. With a minus, the download waits for
// release after half of its bytes.
type fileSite struct {
	*httptest.Server
	release chan struct{}
}

func newFileSite(t *testing.T) *fileSite {
	t.Helper()
	s := &fileSite{release: make(chan struct{})}
	s.Server = testenv.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, name, _ := strings.Cut(r.URL.Path[1:], "/")
		size, err := strconv.Atoi(text)
		if err != nil {
			return
		}
		w.Header().Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name))
		if size < 0 {
			size = -size
			_, _ = w.Write(content(size / 2))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-s.release:
			case <-r.Context().Done():
			}
			_, _ = w.Write(content(size)[size/2:])
			return
		}
		_, _ = w.Write(content(size))
	}))
	return s
}

func content(size int) []byte { return bytes.Repeat([]byte("0123456789"), size/10+1)[:size] }

// filesOf is the API of a launch's files.
type filesOf struct {
	*testWorker
	t     *testing.T
	base  string // path of the launch or session
	token []string
}

func (r *testWorker) filesOf(t *testing.T, s workerapi.BrowserSession) filesOf {
	return filesOf{r, t, "/browsers/" + s.LaunchId.String(), []string{"X-Svc-Token", token(*s.ViewUrl)}}
}

func (r *testWorker) filesOfSession(t *testing.T, s workerapi.BrowserSession) filesOf {
	return filesOf{r, t, "/sessions/" + s.Id.String(), []string{"X-API-Key", workerKey}}
}

// do sends a request and returns the answer with its body.
func (f filesOf) do(method, path, body string, headers ...string) (*http.Response, string) {
	f.t.Helper()
	ctx := contracttest.AllowInvalidRequest(f.t.Context())
	if method == http.MethodHead {
		ctx = contracttest.AllowUndocumentedRoute(ctx)
	}
	request, err := http.NewRequestWithContext(ctx, method, f.url+f.base+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	headers = append(headers, f.token...)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if method == http.MethodPut {
		request.Header.Set("Content-Type", "application/octet-stream")
	}
	answer, err := f.client.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer, string(text)
}

// expect sends a request and fails unless the answer has the status.
func (f filesOf) expect(status int, method, path, body string, headers ...string) (*http.Response, string) {
	f.t.Helper()
	answer, text := f.do(method, path, body, headers...)
	if answer.StatusCode != status {
		f.t.Errorf("%s %s: got %d %.300s, want %d", method, path, answer.StatusCode, text, status)
	}
	return answer, text
}

// download makes the browser open an address in a new tab.
func (f filesOf) download(address string) {
	f.t.Helper()
	f.expect(200, "PUT", "/json/new?"+url.QueryEscape(address), "")
}

// await waits until the newest file of a name has a state, and a checksum if it is complete.
func (f filesOf) await(name string, state workerapi.LaunchFileState) workerapi.LaunchFile {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, text := f.expect(200, "GET", "/files?name="+url.QueryEscape(name), "")
		items := decode[workerapi.LaunchFileListResponse](f.t, []byte(text)).Data.Items
		if len(items) > 0 && items[0].State == state && (state != workerapi.LaunchFileStateComplete || items[0].Sha256 != nil) {
			return items[0]
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s is not %s: %s", name, state, text)
		}
	}
}

func withFiles(c *app.Config) { c.LaunchFiles, c.FilesRetention = 16, time.Hour }

func TestFiles_DownloadsReachClient(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newFileSite(t)
	f := r.filesOf(t, r.launch(t))
	const name = `résumé "日本"; a=b.html`
	f.download(site.URL + "/1000/" + url.PathEscape(name))
	// Chromium itself replaces the quotes.
	got := f.await(`résumé _日本_; a=b.html`, workerapi.LaunchFileStateComplete)
	sum := sha256.Sum256(content(1000))
	if got.Size != 1000 || *got.Sha256 != hex.EncodeToString(sum[:]) || *got.Origin != site.URL || got.Path != nil || *got.TotalSize != 1000 {
		t.Errorf("got %+v", got)
	}
	answer, text := f.expect(200, "GET", "/files/"+got.Id, "")
	if text != string(content(1000)) {
		t.Errorf("got %d bytes", len(text))
	}
	for header, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Length": "1000", "Accept-Ranges": "bytes",
		"Content-Disposition": "attachment; filename*=utf-8''r%C3%A9sum%C3%A9%20_%E6%97%A5%E6%9C%AC_%3B%20a%3Db.html",
	} {
		if answer.Header.Get(header) != want {
			t.Errorf("%s is %q, want %q", header, answer.Header.Get(header), want)
		}
	}
	if policy := answer.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "sandbox") {
		t.Errorf("the policy is %q", policy)
	}
	if _, text := f.expect(200, "GET", "/files/latest", ""); len(text) != 1000 {
		t.Errorf("the latest file has %d bytes", len(text))
	}
	f.expect(200, "GET", "/files/latest?name="+url.QueryEscape(got.Name), "")
	f.expect(404, "GET", "/files/latest?name=other", "")
	f.expect(404, "GET", "/files/"+got.Id+"?name=other", "")
	f.expect(404, "GET", "/files/no-such-file", "")
	f.expect(400, "GET", "/files/..%2F..%2Fsecret", "")
	f.expect(400, "GET", "/files?page=0", "")
	if answer, text := f.expect(200, "HEAD", "/files/"+got.Id, ""); text != "" || answer.ContentLength != 1000 {
		t.Errorf("HEAD: %d bytes", answer.ContentLength)
	}
	if _, text := f.expect(206, "GET", "/files/"+got.Id, "", "Range", "bytes=990-"); text != "0123456789" {
		t.Errorf("a range is %q", text)
	}
	f.expect(206, "GET", "/files/"+got.Id, "", "Range", "bytes=0-1,5-6")
	if answer, _ := f.expect(416, "GET", "/files/"+got.Id, "", "Range", "bytes=1000-"); answer.Header.Get("Content-Range") != "bytes */1000" || answer.Header.Get("Content-Disposition") != "" {
		t.Errorf("outside: %v", answer.Header)
	}
	f.expect(200, "DELETE", "/files/"+got.Id, "")
	f.expect(404, "DELETE", "/files/"+got.Id, "")
	f.expect(404, "GET", "/files/"+got.Id, "")
	f.expect(400, "DELETE", "/files/a_b", "")
}

// TestFiles_FollowDownload reads a file while it grows, and one that is canceled.
func TestFiles_FollowDownload(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newFileSite(t)
	f := r.filesOf(t, r.launch(t))
	start := func(name string) (id string, body io.ReadCloser) {
		f.download(site.URL + "/-3000000/" + name)
		id = f.await(name, workerapi.LaunchFileStateInProgress).Id
		f.expect(200, "HEAD", "/files/"+id, "")
		request, err := http.NewRequestWithContext(t.Context(), "GET", r.url+f.base+"/files/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Svc-Token", f.token[1])
		answer, err := http.DefaultClient.Do(request)
		if err != nil || answer.StatusCode != 200 {
			t.Fatalf("%v %v", answer, err)
		}
		if _, err := io.ReadFull(answer.Body, make([]byte, 1_000_000)); err != nil {
			t.Fatal(err)
		}
		return id, answer.Body
	}
	canceled, body := start("canceled")
	f.expect(200, "DELETE", "/files/"+canceled, "")
	if _, err := io.Copy(io.Discard, body); err == nil {
		t.Error("the transfer of a canceled download ended as if it were complete")
	}
	_ = body.Close()
	id, body := start("complete")
	close(site.release)
	rest, err := io.ReadAll(body)
	_ = body.Close()
	if err != nil || len(rest) != 2_000_000 {
		t.Errorf("followed %d bytes: %v", len(rest), err)
	}
	if got := f.await("complete", workerapi.LaunchFileStateComplete); got.Id != id || got.Size != 3_000_000 {
		t.Errorf("got %+v", got)
	}
	f.download(site.URL + "/20000000/too-large")
	refused := f.await("too-large", workerapi.LaunchFileStateQuotaExceeded)
	f.expect(409, "GET", "/files/"+refused.Id, "")
	if !strings.Contains(r.log.String(), "download canceled by the worker") {
		t.Error("the log does not mention the canceled download")
	}
}

func TestFiles_Upload(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	f := r.filesOf(t, r.launch(t))
	const name = "日本 a+b%.txt"
	answer, text := f.expect(201, "PUT", "/files/"+url.PathEscape(name), "content")
	added := decode[workerapi.LaunchFileResponse](t, []byte(text)).Data
	if added.Name != name || added.Size != 7 || added.State != workerapi.LaunchFileStateComplete || !strings.HasSuffix(*added.Path, "/"+added.Id+"/"+name) ||
		!strings.HasSuffix(answer.Header.Get("Location"), "/files/"+added.Id) {
		t.Errorf("got %+v", added)
	}
	if _, text := f.expect(200, "GET", "/files/"+added.Id, ""); text != "content" {
		t.Errorf("got %q", text)
	}
	f.expect(201, "PUT", "/files/"+url.PathEscape(name), "other")
	f.expect(201, "PUT", "/files/empty", "")
	f.expect(201, "PUT", "/files/"+strings.Repeat("a", 255), "x")
	for _, bad := range []string{"%2e%2e", "a%2Fb", "a%5Cb", "a%00b", "a%0Ab", "a%FF", strings.Repeat("a", 256)} {
		f.expect(400, "PUT", "/files/"+bad, "x")
	}
	if _, text := f.expect(409, "PUT", "/files/large", strings.Repeat("x", 17<<20)); !strings.Contains(text, "LAUNCH_FILES_MB") {
		t.Errorf("got %s", text)
	}
	_, archive := f.expect(200, "GET", "/files.zip", "")
	unpacked, err := zip.NewReader(strings.NewReader(archive), int64(len(archive)))
	if err != nil || len(unpacked.File) != 4 {
		t.Fatalf("%v %v", unpacked, err)
	}
	sizes := map[string]uint64{}
	for _, entry := range unpacked.File {
		sizes[entry.Name] = entry.UncompressedSize64
	}
	if sizes[name]+sizes["日本 a+b% (1).txt"] != 12 || sizes["empty"] != 0 {
		t.Errorf("the archive has %v", sizes)
	}
	f.expect(400, "GET", "/files.zip?x=1", "")
	r.refuseHugeUpload(t, f)
	r.abortUpload(t, f)
	if _, text := f.expect(200, "GET", "/files?limit=1&page=4", ""); decode[workerapi.LaunchFileListResponse](t, []byte(text)).Data.Pagination.Total != 4 {
		t.Errorf("got %s", text)
	}
}

// refuseHugeUpload announces more bytes than are allowed.
func (r *testWorker) refuseHugeUpload(t *testing.T, f filesOf) {
	t.Helper()
	read, write := io.Pipe()
	defer write.Close()
	request, err := http.NewRequestWithContext(t.Context(), "PUT", r.url+f.base+"/files/huge", read)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = 2<<30 + 1
	request.Header.Set("X-Svc-Token", f.token[1])
	request.Header.Set("Content-Type", "application/octet-stream")
	request.Header.Set("Expect", "100-continue")
	answer, err := r.client.Transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != 413 {
		t.Errorf("a huge upload: %d", answer.StatusCode)
	}
}

// abortUpload sends a part of an upload.
func (r *testWorker) abortUpload(t *testing.T, f filesOf) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, "PUT", r.url+f.base+"/files/aborted", read)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = 1000
	request.Header.Set("X-Svc-Token", f.token[1])
	go func() {
		_, _ = write.Write(content(500))
		cancel()
		_ = write.Close()
	}()
	if answer, err := http.DefaultClient.Do(request); err == nil {
		_ = answer.Body.Close()
		t.Error("an incomplete upload was accepted")
	}
}

// TestFiles_AreTheLaunchs: no other launch, ticket or id opens the files of a launch.
func TestFiles_AreTheLaunchs(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	s, other := r.launch(t), r.launch(t)
	f, foreign := r.filesOf(t, s), r.filesOf(t, other)
	_, text := f.expect(201, "PUT", "/files/mine.txt", "content")
	id := decode[workerapi.LaunchFileResponse](t, []byte(text)).Data.Id
	foreign.expect(404, "GET", "/files/"+id, "")
	foreign.expect(404, "DELETE", "/files/"+id, "")
	foreign.expect(404, "GET", "/files/latest", "")
	view := r.viewTicket(t, s)
	for name, credential := range map[string][]string{
		"another launch's token": foreign.token, "no token": {"X-Svc-Token", ""}, "view ticket": {"X-Svc-Token", view},
		"view cookie":      {"Cookie", ticket.CookieName(s.LaunchId.String(), ticket.View) + "=" + view},
		"organization key": {"X-API-Key", cloudtest.Key},
	} {
		unauthorized := filesOf{r, t, f.base, credential}
		for _, route := range []struct{ method, path string }{
			{"GET", "/files"}, {"GET", "/files?t=" + view}, {"GET", "/files/" + id}, {"HEAD", "/files/" + id}, {"GET", "/files/" + id + "?t=" + view},
			{"PUT", "/files/x"}, {"DELETE", "/files/" + id}, {"GET", "/files.zip"},
		} {
			answer, text := unauthorized.do(route.method, route.path, "")
			if answer.StatusCode != 404 || route.method != "HEAD" && text != "unknown browser" {
				t.Errorf("%s: %s %s: %d %s", name, route.method, route.path, answer.StatusCode, text)
			}
		}
	}
	for _, credential := range [][]string{{"X-API-Key", "wrong"}, f.token, {"X-API-Key", cloudtest.Key}} {
		unauthorized := filesOf{r, t, "/sessions/" + s.Id.String(), credential}
		for _, route := range []struct{ method, path string }{
			{"GET", "/files"}, {"GET", "/files/" + id}, {"DELETE", "/files/" + id}, {"GET", "/files.zip"},
		} {
			unauthorized.expect(401, route.method, route.path, "")
		}
	}
	for _, opener := range [][]string{{"X-API-Key", workerKey}, {"Cookie", "svc_console=" + r.consoleToken(t)}} {
		owner := filesOf{r, t, f.base, opener}
		owner.expect(200, "GET", "/files/"+id, "")
	}
	if status, text := r.call(t.Context(), t, "GET", f.base+"/files/"+id+"?ct="+f.token[1], ""); status != 200 || string(text) != "content" {
		t.Errorf("the token in the URL: %d %s", status, text)
	}
}

// TestFiles_AreKeptAcrossRestart keeps the files of one launch and removes those of others.
func TestFiles_AreKeptAcrossRestart(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newFileSite(t)
	launch := func(keep bool) workerapi.BrowserSession {
		return r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"keepFiles":%t}}`, r.cloud.Profile(r.version), keep))
	}
	kept, dropped := launch(true), launch(false)
	for _, s := range []workerapi.BrowserSession{kept, dropped} {
		f := r.filesOf(t, s)
		f.download(site.URL + "/1000/file")
		f.await("file", workerapi.LaunchFileStateComplete)
		f.download(site.URL + "/-100000/unfinished")
		f.await("unfinished", workerapi.LaunchFileStateInProgress)
		f.expect(201, "PUT", "/files/uploaded", "content")
		r.filesOfSession(t, s).expect(200, "GET", "/files/latest", "")
		r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		f.expect(404, "GET", "/files", "")
	}
	rest, gone := r.filesOfSession(t, kept), r.filesOfSession(t, dropped)
	for range 2 {
		gone.expect(404, "GET", "/files", "")
		gone.expect(404, "GET", "/files.zip", "")
		gone.expect(404, "DELETE", "/files/latest", "")
		file := rest.await("file", workerapi.LaunchFileStateComplete)
		if _, text := rest.expect(200, "GET", "/files/"+file.Id, ""); text != string(content(1000)) {
			t.Errorf("the kept file has %d bytes", len(text))
		}
		rest.expect(206, "GET", "/files/"+file.Id, "", "Range", "bytes=5-")
		rest.expect(416, "GET", "/files/"+file.Id, "", "Range", "bytes=5000-")
		rest.expect(409, "GET", "/files/"+rest.await("unfinished", workerapi.LaunchFileStateFailed).Id, "")
		rest.expect(404, "GET", "/files/unknown", "")
		rest.expect(400, "GET", "/files/a_b", "")
		rest.expect(400, "GET", "/files?page=0", "")
		rest.expect(400, "DELETE", "/files/a_b", "")
		rest.expect(400, "GET", "/files.zip?x=1", "")
		rest.expect(200, "GET", "/files.zip", "")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r.start(t)
	}
	rest.expect(200, "DELETE", "/files/"+rest.await("file", workerapi.LaunchFileStateComplete).Id, "")
	rest.expect(404, "GET", "/files/latest?name=file", "")
}

func TestFiles_KeepIsRefusedWithoutRetention(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	status, text := r.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"keepFiles":true}}`, r.cloud.Profile(r.version)), "X-API-Key", workerKey)
	if status != 400 || !strings.Contains(string(text), "FILES_RETENTION") {
		t.Errorf("got %d %s", status, text)
	}
}
