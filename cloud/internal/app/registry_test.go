package app

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	randomimage "github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/browser-svc/svc/cloud/internal/api/registry/registrytest"
	"github.com/browser-svc/svc/shared/testenv"
)

func TestRegistry_ServesImageUntilOperatorRevokesKey(t *testing.T) {
	h := newTestEnv(t, nil)
	k := h.newKeyClient(t)
	upstream := registrytest.Start(t)
	image, err := randomimage.Image(1<<10, 1)
	k.must(err)
	options := []crane.Option{crane.WithAuth(authn.Anonymous), crane.WithContext(t.Context())}
	k.must(crane.Push(image, upstream.Host+"/svc/worker:latest", options...))

	config := h.config
	config.DatabaseURL, config.Host = h.dsn, "127.0.0.1"
	config.Port = testenv.FreePort(t)
	config.Registry = RegistryConfig{Upstream: "http://" + upstream.Host + "/svc/worker"}
	log := &testenv.Log{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- ServeRegistry(ctx, config, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ServeRegistry: %v", err)
		}
		if text := log.String(); strings.Contains(text, k.secret[4:]) || !strings.Contains(text, "server stopped") {
			t.Errorf("the log has the key, or is incomplete:\n%s", text)
		}
	}()
	ref := net.JoinHostPort("127.0.0.1", strconv.Itoa(config.Port)) + "/" + k.secret + "/local-api"
	testenv.Eventually(t, "the image has a digest", func() bool {
		_, err := crane.Digest(ref, options...)
		return err == nil
	})
	if status, _, errs := command(map[string]string{"DATABASE_URL": h.dsn}, k.secret, "keys", "revoke", "-"); status != 0 {
		t.Fatalf("keys revoke: %d %s", status, errs)
	}
	if _, err := crane.Digest(ref, options...); err == nil || !strings.Contains(err.Error(), "NAME_UNKNOWN") {
		t.Errorf("with the revoked key: %v", err)
	}
}

func TestRegistry_RequiresConfiguration(t *testing.T) {
	for want, environ := range map[string]map[string]string{
		"REGISTRY_UPSTREAM is not set":                            {"DATA_DIR": t.TempDir()},
		"REGISTRY_UPSTREAM must be the URL":                       {"DATA_DIR": t.TempDir(), "REGISTRY_UPSTREAM": "worker"},
		"DATABASE_URL is not set and no cloud is running in DATA": {"DATA_DIR": t.TempDir(), "REGISTRY_UPSTREAM": "https://registry.example.com/worker"},
	} {
		if status, _, errs := command(environ, "", "registry"); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%d %s, want %s", status, errs, want)
		}
	}
}
