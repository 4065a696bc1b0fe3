// Package app assembles the cloud: the only place that knows all its parts.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/browser-svc/svc/cloud/internal/platform/retention"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/program"
)

// Main runs the program svc-cloud and returns its exit status.
func Main(args []string) int {
	tuneGarbageCollector()
	return newProgram(nil, os.Stdin, os.Stdout, os.Stderr).Main(args)
}

// newProgram is the program; a nil environ is the process's.
func newProgram(environ map[string]string, stdin io.Reader, out, errs io.Writer) program.Program[Config] {
	return program.Program[Config]{
		Name:    "svc-cloud",
		Summary: "the cloud API: profiles, organizations and license accounting",
		Commands: []program.Command[Config]{
			{Name: "serve", Summary: "Migrate the database and serve the API", Run: Serve},
			{Name: "migrate", Summary: "Migrate the database", Run: Migrate},
			bootstrapCommand(out),
			registryCommand(),
			organizationsCommand(out),
			usersCommand(out),
			keysCommand(stdin, out),
			releasesCommand(out, errs),
			secretsCommand(out),
			restoreCheckCommand(out),
			program.Health(func(c Config) (string, int) { return c.Host, c.Port }),
		},
		Logging: func(c Config) program.Logging { return c.Logging },
		Environ: environ, Out: out, Err: errs,
	}
}

// tuneGarbageCollector sets GOGC to 400 unless the environment sets it: the live
// heap is a few MB, and each request allocates a lot.
func tuneGarbageCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// Migrate migrates the database.
func Migrate(ctx context.Context, config Config, logger *slog.Logger) error {
	database, err := openDatabase(ctx, config, logger)
	if err != nil {
		return err
	}
	defer database.close()
	return database.migrate(ctx)
}

// Serve runs the cloud until ctx is done and then completes the requests in
// progress.
func Serve(ctx context.Context, config Config, logger *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(config.Host, strconv.Itoa(config.Port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	database, err := openDatabase(ctx, config, logger)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer database.close()
	if err := database.migrate(ctx); err != nil {
		_ = listener.Close()
		return err
	}
	return serve(ctx, config, database, listener, logger)
}

// serve serves requests on the listener until ctx is done or the embedded
// PostgreSQL fails.
func serve(ctx context.Context, config Config, database *database, listener net.Listener, logger *slog.Logger) error {
	pools, err := database.pools(ctx)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer func() { _ = pools.closers.Close() }()
	parts, err := assemble(ctx, config, pools, logger)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer func() {
		if err := parts.closers.Close(); err != nil {
			logger.Error("failed to close services", "error", err)
		}
	}()
	web, options, err := parts.newWebServer(config, logger)
	if err != nil {
		_ = listener.Close()
		return err
	}
	stopMetrics, err := config.Metrics.Start(ctx, parts.metrics.handler(logger), logger)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer stopMetrics()
	ctx, cancel := servingContext(ctx, parts.readiness, config.ShutdownDelay, func() {
		parts.licenses.StopWaiting()
		parts.webhooks.StopStreams()
	})
	defer cancel()
	var background sync.WaitGroup
	background.Go(func() { parts.licenses.RunReaper(ctx, reapInterval) })
	background.Go(func() { parts.outbox.Run(ctx) })
	background.Go(func() { parts.webhooks.Run(ctx) })
	background.Go(func() { parts.retention.Run(ctx) })
	background.Go(func() { parts.usage.Run(ctx) })
	background.Go(func() { parts.sweep(ctx, logger) })
	background.Go(func() {
		select {
		case <-database.failed():
			cancel()
		case <-ctx.Done():
		}
	})
	logger.InfoContext(ctx, "cloud is ready", "address", listener.Addr().String(), "public", parts.public.String(), "database", database.kind)
	err = errors.Join(httpd.Serve(ctx, listener, web, options), database.failure())
	cancel()
	background.Wait()
	logger.Info("cloud stopped")
	return err
}

// servingContext returns a context in which the server and its background tasks run. It
// ends delay after ctx (SHUTDOWN_DELAY); until then the program is unready. beforeEnd is
// called at the end of the delay.
func servingContext(ctx context.Context, readiness *httpd.Readiness, delay time.Duration, beforeEnd func()) (context.Context, context.CancelFunc) {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		readiness.Shutdown(delay, serving.Done())
		beforeEnd()
		cancel()
	})
	return serving, func() {
		stop()
		cancel()
	}
}

// sweepInterval is the time between two runs of sweep.
const sweepInterval = time.Hour

// reapInterval is how often the cloud releases the slots of workers that no longer
// report.
const reapInterval = 15 * time.Second

// sweep renews or ends due subscriptions and deletes expired dashboard sessions,
// invitations and ephemeral profiles. It runs periodically until ctx is done. An
// ephemeral profile is deleted when its slot is, because its session can then no
// longer be resumed.
func (p *services) sweep(ctx context.Context, logger *slog.Logger) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		_, sessions := p.accounts.Sweep(ctx)
		_, invitations := p.organizations.SweepInvitations(ctx)
		_, subscriptions := p.billing.Sweep(ctx)
		_, profiles := p.profiles.SweepEphemeral(ctx, retention.Records)
		if err := errors.Join(sessions, invitations, subscriptions, profiles); err != nil && ctx.Err() == nil {
			logger.ErrorContext(ctx, "failed to delete expired data", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func secretPath(config Config) string { return filepath.Join(config.DataDir, "secret-keys") }
