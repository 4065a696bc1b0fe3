package registry_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/browser-svc/svc/cloud/internal/api/registry"
	"github.com/browser-svc/svc/cloud/internal/api/registry/registrytest"
	"github.com/browser-svc/svc/shared/httpd"
)

const unknownKey = "svc_abcdefghijklmnopqrstuvwxyz234567"

func TestGate_PullsWithKeyUntilRevoked(t *testing.T) {
	f, _, image := newPullable(t)
	id, key := f.key(t)
	_, other := f.key(t)
	f.pull(t, key, image)
	if err := f.keys.Revoke(t.Context(), f.orgID, id); err != nil {
		t.Fatal(err)
	}
	if _, err := crane.Pull(f.host+"/"+key+"/local-api", anonymous(t)...); err == nil || !strings.Contains(err.Error(), "NAME_UNKNOWN") {
		t.Errorf("with the revoked key: %v", err)
	}
	blob, _ := layer(t, image, 0)
	if got := f.ask(t, "GET", "/v2/"+key+"/local-api/blobs/"+blob); got.StatusCode != 404 || got.code(t) != "NAME_UNKNOWN" {
		t.Errorf("a blob with the revoked key: %d %s", got.StatusCode, got.body)
	}
	f.pull(t, other, image)
	if !strings.Contains(f.log.String(), `"path":"/v2/[key]/local-api/manifests/latest"`) || !strings.Contains(f.log.String(), `"path":"/v2/[key]/local-api/blobs/sha256:`) {
		t.Errorf("the log has no masked paths:\n%s", f.log)
	}
}

// All requests without a valid key for the image have one response.
func TestGate_WrongKeyLooksLikeUnknownRepository(t *testing.T) {
	f, _, _ := newPullable(t)
	id, revoked := f.key(t)
	_, valid := f.key(t)
	f.issued = append(f.issued, unknownKey)
	if err := f.keys.Revoke(t.Context(), f.orgID, id); err != nil {
		t.Fatal(err)
	}
	var want response
	for _, path := range []string{
		valid + "/other/manifests/latest", unknownKey + "/local-api/manifests/latest", revoked + "/local-api/manifests/latest",
		strings.ToUpper(valid) + "/local-api/manifests/latest", "svc/worker/manifests/latest", valid + "/local-api/tags", "_catalog", valid,
		unknownKey + "/local-api/tags/list", unknownKey + "/local-api/blobs/sha256:abc", revoked + "/local-api/referrers/x",
	} {
		got := f.ask(t, "GET", "/v2/"+path)
		head := f.ask(t, "HEAD", "/v2/"+path)
		got.Header.Del("X-Request-Id")
		got.Header.Del("Date")
		if want.Response == nil {
			want = got
		}
		if got.StatusCode != 404 || got.code(t) != "NAME_UNKNOWN" || head.StatusCode != 404 || len(head.body) != 0 {
			t.Errorf("%s: %d, HEAD %d, %s", path, got.StatusCode, head.StatusCode, got.body)
		}
		if diff := cmp.Diff(want.Header, got.Header) + cmp.Diff(want.body, got.body); diff != "" {
			t.Errorf("%s differs: %s", path, diff)
		}
	}
	if _, err := crane.Catalog(f.host, anonymous(t)...); err == nil {
		t.Error("the catalog is listed")
	}
}

func TestGate_IsReadOnly(t *testing.T) {
	f, upstream, image := newPullable(t)
	_, key := f.key(t)
	secret := push(t, upstream.Host+"/svc/secret:latest", 1<<10)
	blob, _ := layer(t, secret, 0)
	base := "/v2/" + key + "/local-api/"
	for _, test := range [][2]string{
		{"POST", base + "blobs/uploads/"}, {"POST", base + "blobs/uploads/?mount=" + blob + "&from=svc/secret"},
		{"PATCH", base + "blobs/uploads/x"}, {"PUT", base + "manifests/latest"}, {"DELETE", base + "manifests/" + digest(t, image)},
		{"DELETE", base + "blobs/" + blob}, {"OPTIONS", base + "manifests/latest"}, {"POST", "/v2/"}, {"POST", "/v2/_catalog"}, {"PUT", "/v2/" + unknownKey + "/local-api/manifests/latest"},
	} {
		got := f.ask(t, test[0], test[1])
		if got.StatusCode != http.StatusMethodNotAllowed || got.code(t) != "UNSUPPORTED" || !strings.Contains(got.Header.Get("Allow"), "GET") {
			t.Errorf("%s %s: %d %s, Allow %q", test[0], test[1], got.StatusCode, got.body, got.Header.Get("Allow"))
		}
	}
	own, err := random.Image(1<<10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := crane.Push(own, f.host+"/"+key+"/local-api", anonymous(t)...); err == nil || !strings.Contains(err.Error(), "UNSUPPORTED") {
		t.Errorf("crane push: %v", err)
	}
	f.pull(t, key, image)
}

// No path leads to another repository of the upstream.
func TestGate_PathsCannotLeaveRepository(t *testing.T) {
	f, upstream, _ := newPullable(t)
	push(t, upstream.Host+"/svc/secret:latest", 1<<10)
	secret := push(t, upstream.Host+"/svc/secret:only", 1<<10)
	blob, _ := layer(t, secret, 0)
	_, key := f.key(t)
	for _, path := range []string{
		"/v2/" + key + "/local-api/../../svc/secret/manifests/latest",
		"/v2/" + key + "/local-api/manifests/../../secret/manifests/latest",
		"/v2/" + key + "/local-api/manifests/..%2f..%2fsecret%2fmanifests%2flatest",
		"/v2/" + key + "/local-api/manifests/%2e%2e",
		"/v2/" + key + "/local-api/manifests/..",
		"/v2/" + key + "/local-api/manifests/lat%65st",
		"/v2/" + key + "/local-api/manifests/latest%00",
		"/v2/" + key + "/local-api/manifests/latest/",
		"/v2/" + key + "/local-api/manifests/latest%3Fx",
		"/v2/" + key + "/local-api/manifests/only",
		"/v2/" + key + "/local-api/manifests/sha256:" + strings.Repeat("G", 64),
		"/v2/" + key + "/local-api/manifests/" + digest(t, secret),
		"/v2/" + key + "/local-api/blobs/" + blob,
		"/v2/" + key + "/local-api/blobs/latest",
		"/v2/" + key + "/local-api/blobs/uploads/",
		"/v2/" + key + "/local-api%2fmanifests/latest",
		"/v2/" + key + "%2flocal-api/manifests/latest",
		"/v2/" + key + "//local-api/manifests/latest",
		"/v2/" + key + "/./local-api/manifests/latest",
		"/v2/" + key + "/local-api;x/manifests/latest",
		"/v2/" + key + "/LOCAL-API/manifests/latest",
		"/v2/" + key + "/local-api/local-api/manifests/latest",
		"/v2/svc%5f" + key[4:] + "/local-api/manifests/latest",
		"/v2/%2573vc_" + key[4:] + "/local-api/manifests/latest",
		"/v2/svc/secret/manifests/latest",
		"/v2/../v2/svc/secret/manifests/latest",
		"/V2/" + key + "/local-api/manifests/latest",
		"//v2/" + key + "/local-api/manifests/latest",
		"/v2//" + key + "/local-api/manifests/latest",
		"/v2%2f" + key + "/local-api/manifests/latest",
		"/x/%2573vc_" + key[4:],
		"/" + strings.ToUpper(key),
	} {
		if got := f.ask(t, "GET", path, "X-Forwarded-For", "192.0.2.1", "Referer", "http://"+f.host+path); got.StatusCode != 404 && got.StatusCode != 400 {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	requests := upstream.Log.String() // pushing needs no GET
	if !strings.Contains(requests, `"GET /v2/svc/worker/manifests/only `) || strings.Contains(requests, `"GET /v2/svc/secret`) {
		t.Errorf("the upstream was asked for the other repository:\n%s", requests)
	}
}

// Requests that net/http refuses before the gate sees them are logged without the key too.
func TestGate_LogHasNoKeyOfMalformedRequests(t *testing.T) {
	f, _, _ := newPullable(t)
	_, key := f.key(t)
	path := "/v2/" + key + "/local-api/manifests/latest"
	for _, request := range []string{
		"GET " + path + "%zz HTTP/1.1\r\nHost: x\r\n\r\n", "GET " + path + " HTTP/9.9\r\n\r\n", "GET " + path + " HTTP/1.1\r\n" + path + "\r\n\r\n",
		"GET " + path + " HTTP/1.1\r\nHost: " + key + "\r\n" + strings.Repeat("A: "+key+"\r\n", 2000) + "\r\n",
		path + "\r\n\r\n", "GET http://" + f.host + path + "/x HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT " + key + ":443 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", f.host)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, request)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode < 400 || res.StatusCode > 499 && res.StatusCode != 505 {
			t.Errorf("%.60q: %v, %v", request, res, err)
		}
		_ = c.Close()
	}
}

func TestGate_RefusesMalformedReferences(t *testing.T) {
	f, _, _ := newPullable(t)
	_, key := f.key(t)
	for path, want := range map[string]string{
		"manifests/no-such-tag": "MANIFEST_UNKNOWN", "manifests/-x": "MANIFEST_UNKNOWN", "manifests/" + strings.Repeat("a", 129): "MANIFEST_UNKNOWN",
		"manifests/sha256:abc": "DIGEST_INVALID", "blobs/sha256:abc": "DIGEST_INVALID", "blobs/latest": "DIGEST_INVALID",
		"blobs/md5:" + strings.Repeat("a", 32): "DIGEST_INVALID", "referrers/sha256:" + strings.Repeat("a", 64): "NAME_UNKNOWN",
		"blobs/sha256:" + strings.Repeat("a", 64): "BLOB_UNKNOWN", "manifests/sha256:" + strings.Repeat("a", 64): "MANIFEST_UNKNOWN",
	} {
		if got := f.ask(t, "GET", "/v2/"+key+"/local-api/"+path); got.code(t) != want {
			t.Errorf("%s: %d %s, want %s", path, got.StatusCode, got.body, want)
		}
	}
}

func TestGate_BlobsHaveRangesAndValidators(t *testing.T) {
	f, _, image := newPullable(t)
	_, key := f.key(t)
	name, content := layer(t, image, 1)
	path := "/v2/" + key + "/local-api/blobs/" + name
	whole := f.ask(t, "GET", path)
	if whole.StatusCode != 200 || !bytes.Equal(whole.body, content) || whole.ContentLength != int64(len(content)) {
		t.Errorf("%d, %d bytes of %d", whole.StatusCode, len(whole.body), len(content))
	}
	h := whole.Header
	if h.Get("Docker-Content-Digest") != name || h.Get("Content-Type") != "application/octet-stream" || h.Get("Etag") == "" || h.Get("Cache-Control") != "private, no-cache" {
		t.Errorf("headers %v", h)
	}
	if got := f.ask(t, "HEAD", path); got.StatusCode != 200 || got.ContentLength != int64(len(content)) || got.Header.Get("Docker-Content-Digest") != name {
		t.Errorf("HEAD: %d %v", got.StatusCode, got.Header)
	}
	if got := f.ask(t, "GET", path, "Range", "bytes=100-199"); got.StatusCode != 206 || !bytes.Equal(got.body, content[100:200]) || got.Header.Get("Content-Range") == "" {
		t.Errorf("a range: %d, %d bytes, %v", got.StatusCode, len(got.body), got.Header)
	}
	if got := f.ask(t, "GET", path, "Range", "bytes=99999999-"); got.StatusCode != 416 {
		t.Errorf("a range outside: %d", got.StatusCode)
	}
	if got := f.ask(t, "GET", path, "If-None-Match", h.Get("Etag")); got.StatusCode != 304 || len(got.body) != 0 {
		t.Errorf("an unchanged blob: %d", got.StatusCode)
	}
	manifest := f.ask(t, "GET", "/v2/"+key+"/local-api/manifests/latest", "Accept", "application/vnd.docker.distribution.manifest.v2+json")
	if manifest.Header.Get("Docker-Content-Digest") != digest(t, image) || manifest.Header.Get("Content-Type") != "application/vnd.docker.distribution.manifest.v2+json" {
		t.Errorf("manifest: %d %v", manifest.StatusCode, manifest.Header)
	}
}

func TestGate_ListsTagsUnderOwnName(t *testing.T) {
	f, upstream, image := newPullable(t)
	_, key := f.key(t)
	for _, tag := range []string{"v1", "v2"} {
		if err := crane.Push(image, upstream.Host+"/svc/worker:"+tag, anonymous(t)...); err != nil {
			t.Fatal(err)
		}
	}
	got, err := crane.ListTags(f.host+"/"+key+"/local-api", append(anonymous(t), crane.WithJobs(1))...)
	if diff := cmp.Diff([]string{"latest", "v1", "v2"}, got); err != nil || diff != "" {
		t.Errorf("%v, tags (-want +got):\n%s", err, diff)
	}
	page := f.ask(t, "GET", "/v2/"+key+"/local-api/tags/list?n=2")
	var list struct {
		Name string
		Tags []string
	}
	if err := json.Unmarshal(page.body, &list); err != nil || list.Name != key+"/local-api" || len(list.Tags) != 2 {
		t.Errorf("%s: %v", page.body, err)
	}
	if link := page.Header.Get("Link"); link != "</v2/"+key+`/local-api/tags/list?last=v1&n=2>; rel="next"` {
		t.Errorf("Link: %s", link)
	}
	if rest := f.ask(t, "GET", "/v2/"+key+"/local-api/tags/list?last=v1&n=2"); !bytes.Contains(rest.body, []byte(`["v2"]`)) {
		t.Errorf("the next page: %s", rest.body)
	}
}

func TestGate_LimitsInvalidKeysPerClient(t *testing.T) {
	f, _, image := newPullable(t)
	_, known := f.key(t)
	_, fresh := f.key(t)
	f.pull(t, known, image)
	path := func(key string) string { return "/v2/" + key + "/local-api/manifests/latest" }
	var limited response
	for i := 0; limited.Response == nil || limited.StatusCode != 429; i++ {
		if i == 1000 {
			t.Fatal("the client was not limited")
		}
		limited = f.ask(t, "GET", path(unknownKey))
	}
	if limited.code(t) != "TOOMANYREQUESTS" || limited.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", limited.body, limited.Header)
	}
	f.pull(t, known, image) // of another machine behind the same address
	if got := f.ask(t, "GET", path(fresh), "X-Forwarded-For", "192.0.2.7"); got.StatusCode != 200 {
		t.Errorf("another client: %d %s", got.StatusCode, got.body)
	}
}

func TestGate_UpstreamDownIsUnavailable(t *testing.T) {
	f, upstream, image := newPullable(t)
	_, key := f.key(t)
	f.pull(t, key, image)
	upstream.Stop()
	got := f.ask(t, "GET", "/v2/"+key+"/local-api/manifests/latest")
	if got.StatusCode != 503 || got.code(t) != "UNAVAILABLE" || got.Header.Get("Retry-After") == "" || bytes.Contains(got.body, []byte(upstream.Host)) {
		t.Errorf("%d %s %v", got.StatusCode, got.body, got.Header)
	}
	if got := f.ask(t, "GET", "/v2/"+unknownKey+"/local-api/manifests/latest"); got.StatusCode != 404 {
		t.Errorf("with an unknown key: %d", got.StatusCode)
	}
	if !strings.Contains(f.log.String(), "connection refused") {
		t.Errorf("the log has no reason:\n%s", f.log)
	}
}

func TestGate_DatabaseDownIsNoUnknownRepository(t *testing.T) {
	f, _, _ := newPullable(t)
	_, key := f.key(t)
	f.pool.Close()
	got := f.ask(t, "GET", "/v2/"+key+"/local-api/manifests/latest")
	if got.StatusCode < 500 || got.code(t) == "NAME_UNKNOWN" {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// Sixteen clients pull 32 MB each; the gate allocates less than one blob.
func TestGate_StreamsWithFlatMemory(t *testing.T) {
	const size, clients = 32 << 20, 16
	upstream := registrytest.Start(t)
	image := push(t, upstream.Host+"/svc/worker:latest", size)
	f := newFixture(t, registry.UpstreamOptions{Repository: "http://" + upstream.Host + "/svc/worker"}, httpd.Options{})
	_, key := f.key(t)
	name, content := layer(t, image, 0)
	length := int64(len(content))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var pulls sync.WaitGroup
	for range clients {
		pulls.Go(func() {
			if n := f.download(t, "/v2/"+key+"/local-api/blobs/"+name); n != length {
				t.Errorf("%d bytes of %d", n, length)
			}
		})
	}
	pulls.Wait()
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d MB through the gate, %d KB allocated by gate and clients", clients*length>>20, allocated>>10)
	if allocated > size {
		t.Errorf("%d bytes allocated, more than a blob of %d bytes", allocated, size)
	}
}

func TestGate_BaseAndHealth(t *testing.T) {
	f := newFixture(t, registry.UpstreamOptions{Repository: "http://127.0.0.1:1/svc/worker"}, httpd.Options{})
	for _, path := range []string{"/v2/", "/v2", "/livez", "/readyz"} {
		if got := f.ask(t, "GET", path); got.StatusCode != 200 || got.Header.Get("Www-Authenticate") != "" {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	if got := f.ask(t, "GET", "/v2/"); got.Header.Get("Docker-Distribution-Api-Version") != "registry/2.0" {
		t.Errorf("headers %v", got.Header)
	}
	if got := f.ask(t, "GET", "/v1/plans"); got.StatusCode != 404 {
		t.Errorf("another path: %d", got.StatusCode)
	}
}
