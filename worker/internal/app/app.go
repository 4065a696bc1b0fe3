// Package app assembles the worker: the only place that knows all its parts.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/openapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/version"
	"github.com/browser-svc/svc/worker/internal/auth"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/devtools"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/report"
	"github.com/browser-svc/svc/worker/internal/rest"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/ticket"
)

// Main runs the program svc-worker and returns its exit status.
func Main(args []string) int {
	return program.Program[Config]{
		Name:    "svc-worker",
		Summary: "launches real browsers on this machine and hands out what drives and shows them",
		Commands: []program.Command[Config]{
			{Name: "serve", Summary: "Serve the worker API", Run: Serve},
			program.Health(func(c Config) (string, int) { return c.Host, c.Port }),
		},
		Logging: func(c Config) program.Logging { return c.Logging },
		Out:     os.Stdout, Err: os.Stderr,
	}.Main(args)
}

// Serve runs a worker until ctx is done; then it ends its browsers, tells the
// cloud, and returns.
func Serve(ctx context.Context, config Config, logger *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(config.Host, strconv.Itoa(config.Port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	w, err := assemble(ctx, config, logger)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer w.close(logger)
	if config.OrganizationKey == "" {
		logger.WarnContext(ctx, "SVC_KEY is not set: nothing will be launched")
	} else {
		defer w.report(ctx)()
	}
	logger.InfoContext(ctx, "the worker is ready", "address", listener.Addr().String(), "public", w.public,
		"cloud", config.CloudURL, "machine", w.machine.ID, "boot", w.machine.BootID)
	err = httpd.Serve(ctx, listener, w.web, w.options)
	w.end(logger)
	return err
}

// worker is everything that runs.
type worker struct {
	machine  cloud.Machine
	public   string
	web      *echo.Echo
	options  httpd.Options
	launcher *browser.Launcher
	launches *launch.Service
	relay    *devtools.Service
	reports  *report.Reporter
}

func assemble(ctx context.Context, config Config, logger *slog.Logger) (_ *worker, err error) {
	dir, err := filepath.Abs(config.DataDir)
	if err != nil {
		return nil, fmt.Errorf("DATA_DIR: %w", err)
	}
	public, err := config.public()
	if err != nil {
		return nil, err
	}
	// First: it locks DATA_DIR, whose other parts belong to whoever holds it.
	launcher, err := openLauncher(ctx, config, dir, logger)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, launcher.Close())
		}
	}()
	machine, err := machineOf(dir, config.WorkerID)
	if err != nil {
		return nil, err
	}
	client, err := cloud.New(config.CloudURL, config.OrganizationKey, machine)
	if err != nil {
		return nil, err
	}
	sessions := session.NewStore(clock.System{})
	reports, err := report.New(client, sessions, filepath.Join(dir, "reports"), logger)
	if err != nil {
		return nil, err
	}
	builds := browser.NewFinder(browser.FindOptions{Path: config.ChromiumPath, Dirs: dirs(config.BrowsersDir), Log: logger})
	launches := launch.New(launch.Options{
		License: client, Reports: reports, Builds: builds, Launcher: launcher, Sessions: sessions,
		Data: launch.NewData(filepath.Join(dir, "profiles")), Forward: forward(logger), Clock: clock.System{}, Logger: logger,
	})
	tickets := ticket.New(clock.System{})
	key := workerKey(config)
	relay := devtools.New(devtools.Options{
		Browsers: finder{sessions, launches}, Tickets: tickets, WorkerKey: key.Matches, Public: public,
	})
	document, err := oapi.Load(ctx, openapi.Files, "worker.yaml")
	if err != nil {
		return nil, err
	}
	w := &worker{machine: machine, public: public.String(), launcher: launcher, launches: launches, relay: relay, reports: reports}
	w.options = httpd.Options{
		Logger: logger, Document: document, Name: "svc-worker", Version: version.Version, TrustedProxies: config.TrustedProxies,
	}
	err = w.route(config, key, document, &rest.Server{
		Launches: launches, Sessions: sessions, Builds: builds, URLs: rest.URLs{Public: public, Tokens: tickets},
		Version: version.Version, ContractVersion: document.T().Info.Version,
	})
	return w, err
}

// route builds the web server.
func (w *worker) route(config Config, key auth.Key, document *oapi.Document, server *rest.Server) error {
	guard, err := oapi.NewGuard(document, oapi.Options{
		Authenticators: map[string]oapi.Authenticator{"workerKey": key.Authenticate},
	})
	if err != nil {
		return err
	}
	w.web = httpd.New(w.options)
	if config.WorkerID != "" {
		w.web.Pre(withoutPrefix("/w/" + config.WorkerID))
	}
	w.web.Use(guard.Middleware())
	workerapi.RegisterHandlers(w.web, workerapi.NewStrictHandler(server, nil))
	w.relay.Register(w.web, "")
	return nil
}

// openLauncher starts the launcher and removes what a crashed worker left.
func openLauncher(ctx context.Context, config Config, dir string, logger *slog.Logger) (*browser.Launcher, error) {
	launcher, err := browser.NewLauncher(browser.Options{
		Dir: filepath.Join(dir, "launches"), Log: logger, AllowNoSandbox: config.AllowNoSandbox,
	})
	if err != nil {
		return nil, err
	}
	swept, err := launcher.Sweep(ctx)
	if err != nil {
		_ = launcher.Close()
		return nil, fmt.Errorf("sweep what an earlier worker left: %w", err)
	}
	if swept != (browser.SweepReport{}) {
		logger.WarnContext(ctx, "swept what an earlier worker left", "processes", swept.Processes, "directories", swept.Directories, "displays", swept.Displays)
	}
	return launcher, nil
}

// report delivers reports and heartbeats until the returned function is
// called.
func (w *worker) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.reports.Run(ctx, func(id uuid.UUID) { w.launches.Unlicensed(id) })
	}()
	return func() { cancel(); <-done }
}

// Bounds of the parts of an orderly end.
const (
	endTimeout   = 25 * time.Second
	flushTimeout = 5 * time.Second
)

// end ends the browsers and tells the cloud, each for a bounded time.
func (w *worker) end(logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := w.launches.Shutdown(ctx); err != nil {
		logger.Error("shutdown", "error", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	w.reports.Flush(ctx)
}

func (w *worker) close(logger *slog.Logger) {
	if err := w.relay.Close(); err != nil {
		logger.Error("close the relay", "error", err)
	}
	if err := w.launcher.Close(); err != nil {
		logger.Error("close the launcher", "error", err)
	}
	logger.Info("the worker has ended")
}
