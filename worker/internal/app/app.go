// Package app assembles the worker: the only place that knows all its parts.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/bundle"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/devtools"
	"github.com/browser-svc/svc/worker/internal/fleet"
	"github.com/browser-svc/svc/worker/internal/launch"
	"github.com/browser-svc/svc/worker/internal/launchsock"
	"github.com/browser-svc/svc/worker/internal/report"
	"github.com/browser-svc/svc/worker/internal/rest"
	"github.com/browser-svc/svc/worker/internal/sandbox"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/ticket"
	"github.com/browser-svc/svc/worker/internal/tracing"
	"github.com/browser-svc/svc/worker/internal/view"
)

// Main runs the program svc-worker and returns its exit status.
func Main(args []string) int {
	if len(args) > 0 && args[0] == sandbox.Command { // a launch's room, started by a worker
		return sandbox.Main()
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // the machine's memory is for browsers
	}
	return program.Program[Config]{
		Name:    "svc-worker",
		Summary: "launches real browsers on this machine and hands out what drives and shows them",
		Commands: []program.Command[Config]{
			{Name: "serve", Summary: "Serve the worker API", Run: Serve},
			browsersCommand(os.Stdout, os.Stderr),
			profilesCommand(os.Stdout),
			selftestCommand(os.Stdout, os.Stderr),
			program.Health(func(c Config) (string, int) { return c.Host, c.Port }),
		},
		Logging: func(c Config) program.Logging { return c.Logging },
		Out:     os.Stdout, Err: os.Stderr,
	}.Main(args)
}

// Serve runs a worker until ctx is done; then it is not ready any more, after
// SHUTDOWN_DELAY takes no launch, lets what runs go on for DRAIN_TIMEOUT, ends its
// browsers, tells the cloud, and returns.
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
	config.checkDescriptors(maxOpenFiles(), logger)
	if config.OrganizationKey == "" {
		logger.WarnContext(ctx, "SVC_KEY is not set: only launches over /launch, with a key of the caller's, are taken")
	}
	defer w.startReporting(ctx, logger)()
	defer w.startWarmPool(ctx)()
	logger.InfoContext(ctx, "the worker is ready", "address", listener.Addr().String(), "public", w.address.String(),
		"cloud", config.CloudURL, "machine", w.machine.ID, "boot", w.machine.BootID)
	debug.FreeOSMemory() // reading the documents took many times what is kept of them
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() {
		w.readiness.Shutdown(config.ShutdownDelay, nil)
		w.drain(config.DrainTimeout, logger)
		stop()
	})()
	defer stop()
	err = httpd.Serve(serving, listener, w.web, w.options)
	w.shutdown(logger)
	return err
}

// worker is everything that runs.
type worker struct {
	machine    cloud.Machine
	address    access.Address
	web        *echo.Echo
	options    httpd.Options
	host       *host
	launcher   *browser.Launcher
	launches   *launch.Service
	tickets    *ticket.Tickets
	warmPool   *launch.WarmPool
	relay      *devtools.Service
	viewer     *view.Service
	sockets    *launchsock.Service
	cloud      *cloud.Client
	hasKey     bool // of its own
	reports    *report.Reporter
	traces     *tracing.Tracing
	unannounce func() // the announcement of this worker's port

	readiness *httpd.Readiness
}

func assemble(ctx context.Context, config Config, logger *slog.Logger) (_ *worker, err error) {
	dir, err := filepath.Abs(config.DataDir)
	if err != nil {
		return nil, fmt.Errorf("DATA_DIR: %w", err)
	}
	public, err := config.publicURL()
	if err != nil {
		return nil, err
	}
	wall, err := config.egressPolicy()
	if err != nil {
		return nil, err
	}
	presets, err := bundle.Load(config.BundlesDir)
	if err != nil {
		return nil, fmt.Errorf("BUNDLES_DIR: %w", err)
	}
	// First: it locks DATA_DIR, whose other parts belong to whoever holds it.
	launcher, err := openLauncher(ctx, config, dir, logger)
	if err != nil {
		return nil, err
	}
	w := &worker{address: access.NewAddress(public), launcher: launcher}
	defer func() {
		if err != nil {
			w.closeParts()
			err = errors.Join(err, launcher.Close())
		}
	}()
	if w.unannounce, err = wall.AnnounceAPIPort(config.Port); err != nil {
		return nil, err
	}
	if w.machine, err = loadMachine(dir, config.WorkerID, logger); err != nil {
		return nil, err
	}
	if w.machine.Predecessors, err = predecessors(dir, w.machine.BootID); err != nil {
		return nil, err
	}
	w.traces = tracing.Open(ctx, config.TraceCollector, "svc-worker", program.Version, logger)
	client, err := cloud.New(config.CloudURL, config.OrganizationKey, w.machine, logger)
	if err != nil {
		return nil, err
	}
	w.cloud, w.hasKey = client, config.OrganizationKey != ""
	sessions := session.NewStore(clock.System{})
	if w.reports, err = report.New(client, sessions, filepath.Join(dir, "reports"), logger); err != nil {
		return nil, err
	}
	if w.host, err = openHost(config, dir, fleet.Options{Logger: logger}); err != nil {
		return nil, err
	}
	profiles, err := config.openProfiles(logger)
	if err != nil {
		return nil, err
	}
	builds := browser.NewFinder(browser.FindOptions{Path: config.ChromiumPath, Dirs: config.browsersDirs(dir), Log: logger})
	spares := launch.WarmStarter{Launcher: denylistLauncher{launcher, wall}, Egress: egressProvider{wall, logger}, Builds: builds}
	w.warmPool = w.newWarmPool(config, spares, logger)
	w.tickets = ticket.New(clock.System{})
	w.launches = launch.New(launch.Options{
		License: client, Reports: w.reports, Builds: builds, Launcher: spares.Launcher, Sessions: sessions,
		Data: profileStore{profiles}, Egress: spares.Egress, Clock: clock.System{}, Logger: logger, Warm: w.warmPool,
		Admission: w.host, Bundles: bundles{presets}, Tokens: w.tickets, OutOfMemory: oomKills, Tracer: w.traces.Tracer(),
		Key: session.NewOrganizationKey(config.OrganizationKey),
	})
	client.OnFailure(w.reports.RequestHeartbeat)
	w.readiness = w.newReadiness(config, logger)
	server := &rest.Server{
		Launches: w.launches, Sessions: sessions, Builds: builds, Bundles: presets, Host: w.host, Readiness: w.readiness, Version: program.Version,
		WarmPool: w.warmPoolState, Isolation: launcher.Isolation,
		Identity: rest.Identity{
			WorkerID: config.WorkerID, MachineID: w.machine.ID, StartedAt: clock.System{}.Now(), MaxSessions: config.MaxSessions,
			HasKey: config.OrganizationKey != "", LastAnswerAt: client.LastAnswerAt,
			License: func() string { return string(client.License()) }, CloudContract: cloudContract(client),
			Reports: w.reports.Counts,
		},
	}
	return w, w.route(config, server, logger)
}

// route builds the web server.
func (w *worker) route(config Config, server *rest.Server, logger *slog.Logger) error {
	document, err := oapi.Parse(workerapi.Document)
	if err != nil {
		return err
	}
	key := workerKey(config)
	guard, err := oapi.NewGuard(document, oapi.Options{
		Authenticators: map[string]oapi.Authenticator{"workerKey": key.Authenticate},
	})
	if err != nil {
		return err
	}
	w.options = httpd.Options{
		Logger: logger, Document: document, Name: "svc-worker", Version: program.Version, TrustedProxies: config.TrustedProxies,
		MaxHeaderBytes: maxHeaderBytes, MaxConnections: config.MaxConnections,
	}
	w.web = httpd.New(w.options)
	if config.WorkerID != "" {
		w.web.Pre(stripPrefix("/w/" + config.WorkerID))
	}
	w.web.Use(tracing.Middleware, guard.Middleware())
	links := access.Links{Address: w.address, Tokens: w.tickets}
	server.Links, server.ContractVersion = links, document.ContractVersion()
	workerapi.RegisterHandlers(w.web, workerapi.NewStrictHandler(server, nil))
	w.relay = devtools.New(devtools.Options{Links: links, Tickets: w.tickets, End: w.killLaunch, Resume: config.resume()})
	w.viewer = view.New(view.Options{Streamer: streamer{}, Logger: logger})
	gates := access.New(access.Options{
		Browsers: browserFinder{w.launches}, Tickets: w.tickets, WorkerKey: key.Matches, Address: w.address, Check: guard.Inspect,
	})
	gates.Register(w.web, slices.Concat(w.relay.Routes(), w.viewer.Routes())...)
	w.web.Match([]string{http.MethodGet, http.MethodHead}, "/browsers/:launchId", view.AddSlash)
	w.sockets = launchsock.New(launchsock.Options{
		Launches: w.launches, Links: links, Parse: launchParser(guard), Logger: logger,
	})
	w.sockets.Register(w.web)
	return nil
}

// killLaunch ends a launch by its id, as the request of who controls it.
func (w *worker) killLaunch(ctx context.Context, launchID string) error {
	id, err := uuid.Parse(launchID)
	if err != nil {
		return fmt.Errorf("launch id: %w", err)
	}
	_, err = w.launches.KillLaunch(ctx, id, session.ByRequest)
	return err
}

// openLauncher starts the launcher and removes what a crashed worker left.
func openLauncher(ctx context.Context, config Config, dir string, logger *slog.Logger) (*browser.Launcher, error) {
	debugUsers, err := config.debugPortUsers()
	if err != nil {
		return nil, err
	}
	launcher, err := browser.NewLauncher(browser.Options{
		Dir: filepath.Join(dir, "launches"), Log: logger, AllowNoSandbox: config.noSandboxAllowed(), Isolation: config.isolation(),
		UnresponsiveTimeout: config.Unresponsive,
		DebugUsers:          debugUsers,
	})
	if err != nil {
		return nil, err
	}
	if err := config.checkIsolation(launcher.Isolation(), logger); err != nil {
		_ = launcher.Close()
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

// startReporting checks the cloud's contract, then delivers reports and heartbeats,
// until the returned function is called. A cloud that is away is no reason not
// to begin.
func (w *worker) startReporting(ctx context.Context, logger *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.cloud.CheckContract(ctx); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "the cloud's contract could not be checked at boot", "error", err)
		}
		if w.hasKey {
			var reclaiming sync.WaitGroup
			defer reclaiming.Wait()
			reclaiming.Go(func() { report.ReclaimStale(ctx, w.cloud, logger) })
		}
		w.reports.Run(ctx, func(id uuid.UUID) { w.launches.KillUnlicensed(id) })
	}()
	return func() { cancel(); <-done }
}

// maxHeaderBytes takes the longest env of /launch, each of its characters four
// escaped bytes, and some more.
const maxHeaderBytes = 1 << 20

// drainPollInterval is how often a worker that drains looks whether it is empty.
const drainPollInterval = 100 * time.Millisecond

// drain takes no launch from now on and waits until none is left, for a bounded
// time.
func (w *worker) drain(timeout time.Duration, logger *slog.Logger) {
	w.launches.Retire()
	running, launching := w.launches.Counts()
	if timeout <= 0 || running+launching == 0 {
		return
	}
	logger.Info("draining: what runs may go on", "sessions", running, "timeout", timeout)
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	for running+launching > 0 {
		select {
		case <-patience.C:
			logger.Warn("draining took too long", "sessions", running)
			return
		case <-time.After(drainPollInterval):
			running, launching = w.launches.Counts()
		}
	}
}

// Bounds of the parts of an orderly end.
const (
	endTimeout    = 25 * time.Second
	flushTimeout  = 5 * time.Second
	tracesTimeout = 5 * time.Second
)

// cancel ends the browsers and tells the cloud, each for a bounded time.
func (w *worker) shutdown(logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := w.launches.Shutdown(ctx); err != nil {
		logger.Error("shutdown", "error", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	w.reports.Flush(ctx)
	ctx, cancel = context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	if err := w.traces.Close(ctx); err != nil {
		logger.Warn("shutdown", "error", err)
	}
}

func (w *worker) close(logger *slog.Logger) {
	w.closeParts()
	if err := w.launcher.Close(); err != nil {
		logger.Error("close the launcher", "error", err)
	}
	logger.Info("the worker has ended")
}

// closeParts ends what was made so far, but for the launcher.
func (w *worker) closeParts() {
	if w.sockets != nil {
		w.sockets.Close()
	}
	if w.viewer != nil {
		_ = w.viewer.Close()
	}
	if w.relay != nil {
		_ = w.relay.Close()
	}
	if w.host != nil {
		w.host.Close()
	}
	if w.unannounce != nil {
		w.unannounce()
	}
}
