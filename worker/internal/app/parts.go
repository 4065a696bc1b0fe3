package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/worker/internal/api/devtools"
	"github.com/browser-svc/svc/worker/internal/api/fileserver"
	"github.com/browser-svc/svc/worker/internal/api/launchsock"
	"github.com/browser-svc/svc/worker/internal/api/mcp"
	"github.com/browser-svc/svc/worker/internal/api/pagelog"
	"github.com/browser-svc/svc/worker/internal/api/render"
	"github.com/browser-svc/svc/worker/internal/api/rest"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
	"github.com/browser-svc/svc/worker/internal/browser/extension"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/data/audit"
	"github.com/browser-svc/svc/worker/internal/data/files"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
	"github.com/browser-svc/svc/worker/internal/host/fleet"
	"github.com/browser-svc/svc/worker/internal/media/interaction"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// worker holds the parts of a running worker.
type worker struct {
	config  Config
	logger  *slog.Logger
	dir     string // DATA_DIR, absolute
	closers program.Closers

	machine  cloud.Machine
	address  access.Address
	policy   *proxy.EgressPolicy
	roots    *x509.CertPool // for calls of the worker; nil for those of the system
	builds   *builds.Finder
	presets  *bundle.Set
	profiles *profiledata.Local
	remote   *remoteProfiles // nil without OBJECT_STORE_URL

	extensions *extension.Store
	sessions   *session.Store

	files     *files.Store
	host      *host
	launcher  *browser.Launcher
	launches  *launch.Service
	warmPool  *launch.WarmPool
	tickets   *ticket.Tickets
	cloud     *cloud.Client
	reports   *report.Reporter
	traces    *tracing.Tracing
	readiness *httpd.Readiness
	contract  string // version of the API document
	metrics   *prometheus.Registry
	drainedAt time.Time // when SAVE_TIMEOUT began; zero if the web server failed

	missingScripts atomic.Pointer[[]string] // without a font; nil: unknown

	web        *echo.Echo
	options    httpd.Options
	relay      *devtools.Service
	logs       *pagelog.Service
	recordings *recording.Service
	watchers   interaction.Watchers
	audit      *audit.Store // nil without AUDIT

	recordingStore *recording.Store // nil without OBJECT_STORE_URL

	fileServer *fileserver.Service
	sockets    *launchsock.Service
	mcp        *mcp.Service
	renders    *render.Service
}

// assemble creates the parts of a worker and connects them. The caller must call
// close.
func assemble(ctx context.Context, config Config, logger *slog.Logger) (_ *worker, err error) {
	w := &worker{config: config, logger: logger, sessions: session.NewStore(clock.System{}), tickets: ticket.New(clock.System{}), metrics: metrics.NewRegistry()}
	if err := w.readConfig(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.closers.Close())
		}
	}()
	// The launcher comes first: it locks DATA_DIR against other workers.
	if w.files, err = w.openFiles(); err != nil {
		return nil, err
	}
	w.closers.AddFunc(w.files.Wait)
	if w.launcher, err = openLauncher(ctx, config, w.dir, w.files, w.fillSecret, logger); err != nil {
		return nil, err
	}
	w.closers.Add(w.launcher.Close)
	if err := w.announcePorts(); err != nil {
		return nil, err
	}
	if err := w.openReporting(ctx); err != nil {
		return nil, err
	}
	if w.host, err = openHost(config, w.dir, fleet.Options{Logger: logger}); err != nil {
		return nil, err
	}
	w.closers.AddFunc(w.host.Close)
	if err := w.openProfileData(ctx); err != nil {
		return nil, err
	}
	if w.extensions, err = extension.Open(extension.Options{Dir: filepath.Join(w.dir, "extensions"), Clock: clock.System{}, Logger: logger}); err != nil {
		return nil, err
	}
	w.logs = pagelog.New()
	w.closers.AddFunc(w.logs.Close)
	if err := w.openRecordings(ctx); err != nil {
		return nil, err
	}
	if err := w.openAudit(); err != nil {
		return nil, err
	}
	w.openLaunches()
	w.cloud.OnFailure(w.reports.RequestHeartbeat)
	w.cloud.DescribeMachine(w.describeMachine)
	w.cloud.Measure(cloud.NewMetrics(w.metrics))
	w.readiness = w.newReadiness(config, logger)
	return w, w.route(config, w.restServer(), logger)
}

// readConfig parses the configuration that needs more than a type.
func (w *worker) readConfig() (err error) {
	if w.dir, err = filepath.Abs(w.config.DataDir); err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}
	public, err := w.config.publicURL()
	if err != nil {
		return err
	}
	w.address = access.NewAddress(public)
	if w.policy, err = w.config.egressPolicy(); err != nil {
		return err
	}
	if w.roots, err = w.config.rootCAs(); err != nil {
		return err
	}
	if w.presets, err = bundle.Load(filepath.Join(w.dir, bundlesDir)); err != nil {
		return err
	}
	return nil
}

// openReporting creates what identifies the worker to the cloud and reports to
// the cloud and to the trace collector.
func (w *worker) openReporting(ctx context.Context) (err error) {
	if w.machine, err = loadMachine(w.dir, w.config.WorkerID, w.logger); err != nil {
		return err
	}
	if w.machine.Predecessors, err = predecessors(w.dir, w.machine.BootID); err != nil {
		return err
	}
	traces := w.config.Traces
	traces.Roots = w.roots
	if w.traces, err = tracing.Open(ctx, traces, "svc-worker", program.Version, w.logger); err != nil {
		return err
	}
	w.closers.AddFunc(w.closeTraces)
	if w.cloud, err = cloud.New(w.config.CloudURL, w.config.organizationKey(), w.machine, w.roots, w.traces, w.logger); err != nil {
		return err
	}
	w.reports, err = report.New(w.cloud, w.sessions, filepath.Join(w.dir, "reports"), w.logger.With("cloud", w.config.CloudURL))
	return err
}

func (w *worker) openBuilds() {
	w.builds = builds.NewFinder(builds.FindOptions{Path: w.config.ChromiumPath, Dirs: []string{w.config.browsersDir(w.dir)}, Log: w.logger})
}

// openLaunches creates the launch service and its warm pool.
func (w *worker) openLaunches() {
	w.openBuilds()
	starter := launch.WarmStarter{
		Launcher: denylistLauncher{w.launcher, w.policy}, Egress: egressProvider{w.policy, w.roots, w.logger}, Builds: w.builds,
		PreferShell: w.config.AutoEngine,
	}
	w.warmPool = w.newWarmPool(w.config, starter, w.logger)
	w.launches = launch.New(launch.Options{
		License: w.cloud, Reports: w.reports, Builds: w.builds, Launcher: starter.Launcher, Sessions: w.sessions,
		Data: w.profileData(), Egress: starter.Egress, Clock: clock.System{}, Logger: w.logger, Warm: w.warmPool,
		Admission: w.host, Bundles: w.presets, Tokens: w.tickets, OutOfMemory: oomKills, Tracer: w.traces.Tracer(), Metrics: launch.NewMetrics(w.metrics),
		Key: session.NewOrganizationKey(w.config.organizationKey()), DrainChanged: w.reports.RequestHeartbeat,
		LimitRules: w.config.Lifetimes.rules(), KeepsFiles: w.files.Keeps(), BlocksAds: w.config.BlockList != "", Launched: w.launched, CannotRecord: cannotRecord, RecordingURLs: w.recordingURLs, OpenReplay: w.openReplay,
		Extensions: extensions{w.extensions, w.launcher.Isolation}, AutoEngine: w.config.AutoEngine, ActionLog: w.actionLog(),
	})
}

// maxHostName is the length of the longest host name that the cloud accepts.
const maxHostName = 253

// describeMachine returns what the cloud's list of machines shows about this worker.
func (w *worker) describeMachine() cloud.MachineReport {
	name := cmp.Or(strings.ToValidUTF8(w.host.Facts().Hostname, ""), w.machine.ID)
	return cloud.MachineReport{
		HostName: name[:min(len(name), maxHostName)], WorkerID: w.config.WorkerID, Version: program.Version, Contract: w.contract,
		PublicURL: w.address.String(), MaxSessions: w.config.MaxSessions, Draining: w.launches.Draining(),
	}
}

// restServer returns the handlers of the REST API. route adds the links.
func (w *worker) restServer() *rest.Server {
	return &rest.Server{
		Launches: w.launches, Sessions: w.sessions, Builds: w.builds, Bundles: w.presets, Extensions: w.extensions, Host: w.host,
		Recording: w.recordings,
		Readiness: w.readiness, Version: program.Version, WarmPool: w.warmPoolState, Isolation: w.launcher.Isolation,
		MissingScripts: w.missingScripts.Load,
		Identity: rest.Identity{
			WorkerID: w.config.WorkerID, MachineID: w.machine.ID, StartedAt: clock.System{}.Now(), MaxSessions: w.config.MaxSessions,
			HasKey: w.config.organizationKey() != "", LastAnswerAt: w.cloud.LastAnswerAt, FullAt: w.cloud.FullAt,
			License: func() string { return string(w.cloud.License()) }, CloudContract: cloudContract(w.cloud),
			Reports: w.reports.Counts,
		},
	}
}

// openFiles opens the store of downloads and uploads.
func (w *worker) openFiles() (*files.Store, error) {
	return files.Open(files.Options{
		Dir: filepath.Join(w.dir, "files"), Quota: w.config.LaunchFiles << 20, MinFree: minFreeDisk, Retention: w.config.FilesRetention,
		Clock: clock.System{}, Log: w.logger, Metrics: files.NewMetrics(w.metrics),
	})
}

// openLauncher starts the launcher and removes what a crashed worker left
// behind.
func openLauncher(ctx context.Context, config Config, dir string, stored *files.Store, fill fillFunc, logger *slog.Logger) (*browser.Launcher, error) {
	debugUsers, err := config.debugPortUsers()
	if err != nil {
		return nil, err
	}
	authorities, err := config.caCertificates()
	if err != nil {
		return nil, err
	}
	blockList, err := config.readBlockList()
	if err != nil {
		return nil, err
	}
	launcher, err := browser.NewLauncher(browser.Options{
		Dir: filepath.Join(dir, "launches"), Log: logger, CACertificates: authorities, AllowNoSandbox: config.noSandboxAllowed(), Isolation: config.isolation(),
		UnresponsiveTimeout: unresponsive, FreezeIdle: time.Duration(config.FreezeIdle) * time.Second,
		DebugUsers: debugUsers, Files: stored, FillSecret: fill, BlockList: blockList,
	})
	if err != nil {
		return nil, err
	}
	if err := launcher.FreezeSupport(); err != nil && config.FreezeIdle > 0 {
		logger.Warn("FREEZE_IDLE_SECONDS has no effect: this host cannot freeze browsers", "error", err)
	}
	if err := config.checkIsolation(launcher.Isolation(), logger); err != nil {
		_ = launcher.Close()
		return nil, err
	}
	swept, err := launcher.Sweep(ctx)
	if err != nil {
		_ = launcher.Close()
		return nil, fmt.Errorf("remove leftovers of an earlier worker: %w", err)
	}
	if err := stored.Load(); err != nil {
		logger.WarnContext(ctx, "failed to remove files of earlier launches", "error", err)
	}
	if swept != (browser.SweepReport{}) {
		logger.WarnContext(ctx, "removed leftovers of an earlier worker",
			"processes", swept.Processes, "directories", swept.Directories, "displays", swept.Displays)
	}
	return launcher, nil
}
