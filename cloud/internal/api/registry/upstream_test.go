package registry_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/browser-svc/svc/cloud/internal/api/registry"
	"github.com/browser-svc/svc/cloud/internal/api/registry/registrytest"
	"github.com/browser-svc/svc/shared/httpd"
)

func TestNewUpstream_RefusesInvalidOptions(t *testing.T) {
	for repository, want := range map[string]string{
		"registry.example.com/svc/worker": "REGISTRY_UPSTREAM must be the URL", "ftp://registry.example.com/svc": "REGISTRY_UPSTREAM must be the URL",
		"https://registry.example.com": "path of a repository", "https://registry.example.com/svc/worker:latest": "without a tag",
		"https://registry.example.com/svc/../x": "path of a repository", "https://registry.example.com/Svc": "path of a repository",
		"https://user@registry.example.com/svc": "must contain user:password@", "https://:b@registry.example.com/svc": "must contain user:password@",
		"https://user:@registry.example.com/svc": "must contain user:password@", "https://registry.example.com/svc?x=y": "REGISTRY_UPSTREAM must be the URL",
	} {
		if _, err := registry.NewUpstream(registry.UpstreamOptions{Repository: repository}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", repository, err, want)
		}
	}
}

// repository returns the URL of the image on a host, with the account of the tests.
func repository(host string) string {
	return "http://" + registrytest.User + ":" + registrytest.Password + "@" + host + "/svc/worker"
}

func TestUpstream_BasicAuthentication(t *testing.T) {
	upstream := registrytest.Start(t, registrytest.Basic(t))
	image := push(t, upstream.Host+"/svc/worker:latest", 1<<10)
	options := registry.UpstreamOptions{Repository: repository(upstream.Host)}
	f := newFixture(t, options, httpd.Options{})
	_, key := f.key(t)
	f.pull(t, key, image)

	for _, auth := range []string{"", "gate:wrong-password@"} {
		options.Repository = "http://" + auth + upstream.Host + "/svc/worker"
		f := newFixture(t, options, httpd.Options{})
		_, key := f.key(t)
		got := f.ask(t, "GET", "/v2/"+key+"/local-api/manifests/latest")
		if got.StatusCode != 503 || got.code(t) != "UNAVAILABLE" || got.Header.Get("Www-Authenticate") != "" {
			t.Errorf("%q: %d %s %v", auth, got.StatusCode, got.body, got.Header)
		}
		if log := f.log.String(); !strings.Contains(log, "check REGISTRY_UPSTREAM and its credentials") || strings.Contains(log, "wrong-password") {
			t.Errorf("%q: the log says %s", auth, log)
		}
	}
}

// tokenServer issues tokens of a validity to the account of the tests. It returns the
// section of the registry's configuration, and the number of issued tokens.
func tokenServer(t *testing.T, validity time.Duration) (section string, issued *atomic.Int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issued = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != registrytest.User || password != registrytest.Password {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		kind, rest, _ := strings.Cut(r.FormValue("scope"), ":")
		name, actions, _ := strings.Cut(rest, ":")
		token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
			"iss": "test", "aud": r.FormValue("service"), "exp": time.Now().Add(validity).Unix(), "nbf": time.Now().Add(-time.Minute).Unix(),
			"access": []any{map[string]any{"type": kind, "name": name, "actions": strings.Split(actions, ",")}},
		})
		token.Header["kid"] = "k"
		signed, err := token.SignedString(key)
		if err != nil {
			t.Error(err)
		}
		issued.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"token": signed})
	}))
	t.Cleanup(server.Close)
	public, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	set := fmt.Sprintf(`{"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "use": "sig", "x": %q, "y": %q}]}`, encode(public[1:33]), encode(public[33:]))
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return fmt.Sprintf("auth: {token: {realm: \"http://localhost:%s/token\", service: registry, issuer: test, jwks: %q}}\n", port, file), issued
}

func TestUpstream_TokenAuthentication(t *testing.T) {
	// The registry accepts tokens for a minute after their expiry, which is over: each is refused after its first use.
	for name, validity := range map[string]time.Duration{"valid": time.Hour, "expired": -2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			section, issued := tokenServer(t, validity)
			upstream := registrytest.Start(t, section)
			f := newFixture(t, registry.UpstreamOptions{
				Repository: repository(upstream.Host),
			}, httpd.Options{})
			_, key := f.key(t)
			if validity > 0 {
				image := push(t, upstream.Host+"/svc/worker:latest", 1<<10)
				pushed := issued.Load()
				f.pull(t, key, image)
				f.pull(t, key, image)
				if n := issued.Load() - pushed; n != 1 {
					t.Errorf("%d tokens for two pulls", n)
				}
				return
			}
			if got := f.ask(t, "GET", "/v2/"+key+"/local-api/manifests/latest"); got.StatusCode != 503 || issued.Load() != 2 {
				t.Errorf("%d %s after %d tokens", got.StatusCode, got.body, issued.Load())
			}
		})
	}
}

func TestUpstream_RedirectsOfBlobs(t *testing.T) {
	var files http.Handler
	objects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the object store got the upstream's credentials")
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(objects.Close)
	upstream := registrytest.Start(t, registrytest.Basic(t), fmt.Sprintf("middleware: {storage: [{name: redirect, options: {baseurl: %q}}]}\n", objects.URL+"/"))
	files = http.FileServer(http.Dir(upstream.Dir))
	image := push(t, upstream.Host+"/svc/worker:latest", 1<<16)
	name, content := layer(t, image, 0)
	for _, redirect := range []bool{false, true} {
		f := newFixture(t, registry.UpstreamOptions{
			Repository: repository(upstream.Host), Redirect: redirect,
		}, httpd.Options{})
		_, key := f.key(t)
		f.pull(t, key, image)
		got := f.ask(t, "GET", "/v2/"+key+"/local-api/blobs/"+name)
		location := got.Header.Get("Location")
		switch {
		case redirect && (got.StatusCode != 307 || !strings.HasPrefix(location, objects.URL+"/") || got.Header.Get("Cache-Control") != "no-store"):
			t.Errorf("%d to %q, %v", got.StatusCode, location, got.Header)
		case !redirect && (got.StatusCode != 200 || location != "" || string(got.body) != string(content)):
			t.Errorf("%d, %d bytes, Location %q", got.StatusCode, len(got.body), location)
		}
		if log := f.log.String(); strings.Contains(log, objects.URL) {
			t.Errorf("the log contains the location:\n%s", log)
		}
	}
}

// newOdd returns a gate in front of an upstream that answers blobs with the handler.
func newOdd(t *testing.T, blob http.HandlerFunc, options registry.UpstreamOptions, web httpd.Options) (f *fixture, path string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v2/svc/worker/blobs/", blob)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	options.Repository = server.URL + "/svc/worker"
	f = newFixture(t, options, web)
	_, key := f.key(t)
	return f, "/v2/" + key + "/local-api/blobs/sha256:" + strings.Repeat("a", 64)
}

func TestUpstream_HeadersAreFiltered(t *testing.T) {
	f, path := newOdd(t, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Www-Authenticate": "Basic realm=x", "Location": "http://upstream.example.com", "Set-Cookie": "a=b", "X-Internal": "x", "Server": "x",
			"Content-Encoding": "gzip", "Cache-Control": "public, max-age=31536000", "Etag": `"e"`, "Link": "</v2/svc/worker/x>; rel=next",
		} {
			w.Header().Set(name, value)
		}
		for name := range r.Header {
			if name != "User-Agent" && name != "Accept" {
				t.Errorf("the upstream got %s: %s", name, r.Header.Get(name))
			}
		}
		_, _ = io.WriteString(w, "content")
	}, registry.UpstreamOptions{}, httpd.Options{})
	got := f.ask(t, "GET", path, "Accept", "a/b", "Cookie", "c=d", "Authorization", "Basic eA==", "X-Forwarded-For", "192.0.2.1")
	if string(got.body) != "content" || got.Header.Get("Etag") != `"e"` || got.Header.Get("Cache-Control") != "private, no-cache" {
		t.Errorf("%d %s %v", got.StatusCode, got.body, got.Header)
	}
	for _, name := range []string{"Www-Authenticate", "Location", "Set-Cookie", "X-Internal", "Server", "Content-Encoding", "Link"} {
		if value := got.Header.Get(name); value != "" {
			t.Errorf("%s: %s", name, value)
		}
	}
}

func TestUpstream_FailuresAreUnavailable(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"403": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "77")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"a redirect to nowhere": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTemporaryRedirect) },
		"a redirect loop":       func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"a closed connection":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no answer":             func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			f, path := newOdd(t, handler, registry.UpstreamOptions{HeaderTimeout: 500 * time.Millisecond}, httpd.Options{})
			got := f.ask(t, "GET", path)
			if got.StatusCode != 503 || got.code(t) != "UNAVAILABLE" || got.Header.Get("Location") != "" {
				t.Errorf("%d %s %v", got.StatusCode, got.body, got.Header)
			}
			if after := got.Header.Get("Retry-After"); after == "" || name == "429" && after != "77" {
				t.Errorf("Retry-After: %q", after)
			}
		})
	}
}

func TestUpstream_IncompleteContentIsNotComplete(t *testing.T) {
	part := strings.Repeat("x", 1<<20)
	for name, handler := range map[string]http.HandlerFunc{
		"idle": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"closed": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, part)
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, path := newOdd(t, handler, registry.UpstreamOptions{IdleTimeout: 500 * time.Millisecond}, httpd.Options{})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.host+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the client got %v", err)
			}
			if !strings.Contains(f.log.String(), "content ended early") {
				t.Errorf("the log says %s", f.log)
			}
		})
	}
}

// A download may take longer than the time limit for reading a request.
func TestUpstream_LongDownloads(t *testing.T) {
	const readTimeout = 50 * time.Millisecond
	f, path := newOdd(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "begin ")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(4 * readTimeout)
		_, _ = io.WriteString(w, "end")
	}, registry.UpstreamOptions{}, httpd.Options{ReadTimeout: readTimeout})
	if got := f.ask(t, "GET", path); string(got.body) != "begin end" {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// The time limit of a download does not apply to the next response on its connection.
func TestUpstream_ConnectionsAreReused(t *testing.T) {
	const idle = 50 * time.Millisecond
	f, path := newOdd(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") }, registry.UpstreamOptions{IdleTimeout: idle}, httpd.Options{})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", f.host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reader := bufio.NewReader(c)
	for _, path := range []string{path, "/v2/"} {
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
			t.Errorf("%s: %d, %v", path, res.StatusCode, err)
		}
		_ = res.Body.Close()
		time.Sleep(2 * idle)
	}
}
