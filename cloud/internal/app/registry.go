package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"

	"github.com/browser-svc/svc/cloud/internal/api/registry"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/program"
)

// RegistryConfig configures svc-cloud registry.
type RegistryConfig struct {
	Upstream string `env:"REGISTRY_UPSTREAM" secret:"true" doc:"For svc-cloud registry: URL of the repository with the worker's image, such as https://user:password@registry.example.com/svc/worker."`
	Redirect bool   `env:"REGISTRY_REDIRECT" envDefault:"false" doc:"For svc-cloud registry: send clients to the host to which the upstream redirects a blob."`
}

// upstream returns the repository; nil if it is not configured.
func (c RegistryConfig) upstream() (*registry.Upstream, error) {
	if c.Upstream == "" {
		return nil, nil
	}
	return registry.NewUpstream(registry.UpstreamOptions{Repository: c.Upstream, Redirect: c.Redirect})
}

func registryCommand() program.Command[Config] {
	return program.Command[Config]{
		Name: "registry", Summary: "Serve the worker's image from another registry, under paths with an organization key",
		Detail: "Runs beside the cloud, with the same DATABASE_URL, and listens on PORT. Without DATABASE_URL, it uses the database of the cloud that is running in DATA_DIR. It requires REGISTRY_UPSTREAM. See openapi/operations/REGISTRY.md.",
		Run:    ServeRegistry,
	}
}

// ServeRegistry runs the registry gate until ctx is done and then completes the requests
// in progress.
func ServeRegistry(ctx context.Context, config Config, logger *slog.Logger) error {
	upstream, err := config.Registry.upstream()
	if err != nil {
		return err
	}
	if upstream == nil {
		return errors.New("REGISTRY_UPSTREAM is not set: it must be the URL of the repository with the worker's image, such as https://registry.example.com/svc/worker")
	}
	defer upstream.Close()
	dsn, err := runningDatabase(config)
	if err != nil {
		return err
	}
	pool, err := pg.Open(ctx, dsn, pg.Options{ApplicationName: "svc-cloud registry", MaxOpen: registryOpen, Lock: lockTimeout, Role: pg.AllRole, PreferIndexes: true})
	if err != nil {
		return err
	}
	defer pool.Close()
	verifier, err := apikey.NewVerifier(ctx, pool, clock.System{}, logger)
	if err != nil {
		return err
	}
	defer func() {
		if err := verifier.Close(); err != nil {
			logger.Error("failed to close the key verifier", "error", err)
		}
	}()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(config.Host, strconv.Itoa(config.Port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	options := httpd.Options{
		Logger: logger, Name: "svc-cloud registry", Version: program.Version, TrustedProxies: config.TrustedProxies, MaxConnections: config.MaxConnections,
	}
	database := newDatabaseHealth(pool, logger)
	defer database.Close()
	readiness := newReadiness(database, logger)
	ctx, cancel := servingContext(ctx, readiness, config.ShutdownDelay, func() {})
	defer cancel()
	return httpd.Serve(ctx, listener, registry.New(registry.Options{
		Keys: imageKeys{verifier}, Upstream: upstream, Readiness: readiness, HTTP: options,
	}), options)
}

// registryOpen is the maximum number of database connections of svc-cloud registry.
const registryOpen = 4

// runningDatabase returns the address of the cloud's database: the registry neither
// starts nor migrates it.
func runningDatabase(config Config) (string, error) {
	if config.DatabaseURL != "" {
		return config.DatabaseURL, nil
	}
	dsn, err := embeddedAddress(config)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("DATABASE_URL is not set and no cloud is running in DATA_DIR: set DATABASE_URL, or start svc-cloud first")
	}
	return dsn, err
}

// imageKeys verifies the keys in image paths.
type imageKeys struct{ verifier *apikey.Verifier }

// Verify implements registry.Keys.
func (k imageKeys) Verify(ctx context.Context, key string) error {
	_, err := k.verifier.Verify(ctx, key)
	return outageFault(err)
}

// Known implements registry.Keys.
func (k imageKeys) Known(key string) bool {
	_, ok := k.verifier.Recall(key)
	return ok
}
