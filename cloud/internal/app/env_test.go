package app

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/browsers/catalog"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/env"
	"github.com/browser-svc/svc/shared/oapi/bundled"
)

// testEnv is an assembled cloud, as Serve builds it, with its own database.
// Clients may set their address with X-Forwarded-For, so that limits per address
// do not interfere.
type testEnv struct {
	dsn      string
	config   Config
	parts    *services
	document *bundled.Document
	all      *sqlx.DB // sees every organization
	url      string
}

// newTestEnv returns a testEnv. environ overrides the default configuration; its
// DATABASE_URL, if set, is a migrated database.
func newTestEnv(t testing.TB, environ map[string]string) *testEnv {
	t.Helper()
	h := &testEnv{dsn: environ["DATABASE_URL"]}
	if h.dsn == "" {
		h.dsn = dbtest.NewDSN(t)
	}
	settings := map[string]string{
		"DATA_DIR": t.TempDir(), "TRUSTED_PROXIES": "127.0.0.0/8", "SIGN_UP": "open", "BILLING_SELF_SERVICE": "true",
		"METRICS_TOKEN": metricsToken,
	}
	for name, value := range environ {
		settings[name] = value
	}
	var err error
	if h.config, err = env.Parse[Config](settings); err != nil {
		t.Fatal(err)
	}
	pools, err := (&database{dsn: h.dsn}).pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pools.closers.Close() })
	h.all = pools.system
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	if h.parts, err = assemble(t.Context(), h.config, pools, logger); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.parts.closers.Close() })
	web, _, err := h.parts.newWebServer(h.config, logger)
	if err != nil {
		t.Fatal(err)
	}
	h.document = contracttest.Load(t, "cloud.yaml")
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// publish puts a browser build of releaseVersion into the catalog.
func (h *testEnv) publish(t *testing.T) {
	t.Helper()
	archive, err := os.Open(build(t, "chrome"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	_, err = h.parts.catalog.Publish(t.Context(), catalog.Publication{
		Build: catalog.Build{Version: releaseVersion, OS: "linux", Arch: "x86_64"}, Channel: "stable", File: archive,
	})
	if err != nil {
		t.Fatal(err)
	}
}
