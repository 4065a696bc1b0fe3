package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/api/registry"
	"github.com/browser-svc/svc/cloud/internal/api/registry/registrytest"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/testenv"
)

// fixture is a gate with keys in a database. After the test, no log contains a key.
type fixture struct {
	keys   *apikey.Service
	pool   *sqlx.DB
	orgID  uuid.UUID
	userID uuid.UUID
	host   string
	log    *testenv.Log
	issued []string
}

// auditLog discards events.
type auditLog struct{}

func (auditLog) Record(context.Context, *sqlx.Tx, uuid.UUID, string, string, map[string]any) error {
	return nil
}

// keys are the keys of a verifier.
type keys struct{ *apikey.Verifier }

func (k keys) Verify(ctx context.Context, key string) error {
	_, err := k.Verifier.Verify(ctx, key)
	return err
}

func (k keys) Known(key string) bool {
	_, known := k.Recall(key)
	return known
}

// newFixture starts a gate in front of the upstream.
func newFixture(t *testing.T, upstream registry.UpstreamOptions, options httpd.Options) *fixture {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	f := &fixture{userID: uuid.New(), orgID: uuid.New(), log: &testenv.Log{}, pool: dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole})}
	f.keys = &apikey.Service{DB: dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole}), Clock: clock.System{}, Audit: auditLog{}}
	owner := dbtest.Open(t, dsn, pg.Options{})
	owner.MustExec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, 'a@example.com', 'A', '-', now())`, f.userID)
	owner.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'O', 'o', now())`, f.orgID)

	logger := slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	verifier, err := apikey.NewVerifier(t.Context(), f.pool, clock.System{}, logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = verifier.Close() })
	proxy, err := registry.NewUpstream(upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	options.Logger, options.TrustedProxies = logger, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	f.serve(t, registry.New(registry.Options{Keys: keys{verifier}, Upstream: proxy, Readiness: httpd.NewReadiness(logger), HTTP: options}), options)
	return f
}

func (f *fixture) serve(t *testing.T, handler http.Handler, options httpd.Options) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.host = listener.Addr().String()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- httpd.Serve(ctx, listener, handler, options) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		f.wantNoKey(t, "the gate", f.log)
	})
}

// wantNoKey checks that a log contains none of the keys, not even a part.
func (f *fixture) wantNoKey(t *testing.T, program string, log *testenv.Log) {
	t.Helper()
	text := strings.ToLower(log.String())
	for _, key := range f.issued {
		if strings.Contains(text, key[4:20]) || strings.Contains(text, key[20:]) {
			t.Errorf("the log of %s contains the key %s:\n%s", program, key, text)
		}
	}
}

// key creates a key.
func (f *fixture) key(t *testing.T) (id uuid.UUID, secret string) {
	t.Helper()
	k, secret, err := f.keys.Create(t.Context(), f.orgID, f.userID, apikey.NewKey{Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	f.issued = append(f.issued, secret)
	return k.ID, secret
}

// newPullable returns a gate in front of a real registry with an image.
func newPullable(t *testing.T) (*fixture, *registrytest.Server, v1.Image) {
	t.Helper()
	upstream := registrytest.Start(t)
	image := push(t, upstream.Host+"/svc/worker:latest", 1<<16)
	f := newFixture(t, registry.UpstreamOptions{Repository: "http://" + upstream.Host + "/svc/worker"}, httpd.Options{})
	t.Cleanup(func() { f.wantNoKey(t, "the upstream", &upstream.Log) })
	return f, upstream, image
}

// push stores a random image with two layers of a size.
func push(t *testing.T, ref string, size int64) v1.Image {
	t.Helper()
	image, err := random.Image(size, 2)
	if err != nil {
		t.Fatal(err)
	}
	auth := authn.FromConfig(authn.AuthConfig{Username: registrytest.User, Password: registrytest.Password})
	if err := crane.Push(image, ref, crane.WithAuth(auth), crane.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	return image
}

// pull pulls the image with all layers and checks that it is the wanted one.
func (f *fixture) pull(t *testing.T, key string, want v1.Image) {
	t.Helper()
	got, err := crane.Pull(f.host+"/"+key+"/local-api", anonymous(t)...)
	if err != nil {
		t.Fatal(err)
	}
	var tar bytes.Buffer
	if err := crane.Export(got, &tar); err != nil { // reads and verifies all layers
		t.Fatal(err)
	}
	if g, w := digest(t, got), digest(t, want); g != w {
		t.Errorf("pulled %s, want %s", g, w)
	}
}

func anonymous(t *testing.T) []crane.Option {
	return []crane.Option{crane.WithAuth(authn.Anonymous), crane.WithContext(t.Context())}
}

func digest(t *testing.T, image v1.Image) string {
	t.Helper()
	d, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// layer returns the digest and the compressed content of a layer.
func layer(t *testing.T, image v1.Image, i int) (string, []byte) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	d, err := layers[i].Digest()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[i].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	all, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return d.String(), all
}

// response is a response with its body.
type response struct {
	*http.Response
	body []byte
}

// code returns the OCI error code.
func (r response) code(t *testing.T) string {
	t.Helper()
	var failed struct {
		Errors []struct{ Code, Message string }
	}
	if err := json.Unmarshal(r.body, &failed); err != nil || len(failed.Errors) != 1 || failed.Errors[0].Message == "" {
		t.Fatalf("%d %s: %v", r.StatusCode, r.body, err)
	}
	return failed.Errors[0].Code
}

// ask sends a request and does not follow redirects.
func (f *fixture) ask(t *testing.T, method, path string, headers ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res, body}
}

// download reads content without keeping it, and returns its size.
func (f *fixture) download(t *testing.T, path string) int64 {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.host+path, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		t.Error(err)
	}
	return n
}
