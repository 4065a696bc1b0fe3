package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/gen/console"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/webapp"
	"github.com/browser-svc/svc/worker/internal/api/devtools"
	"github.com/browser-svc/svc/worker/internal/api/fileserver"
	"github.com/browser-svc/svc/worker/internal/api/launchsock"
	"github.com/browser-svc/svc/worker/internal/api/render"
	"github.com/browser-svc/svc/worker/internal/api/rest"
	"github.com/browser-svc/svc/worker/internal/api/view"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
	"github.com/browser-svc/svc/worker/internal/session"
)

// maxHeaderBytes fits the longest env query of /launch with every character
// escaped, plus the other headers.
const maxHeaderBytes = 1 << 20

// route creates the web server and registers all routes.
func (w *worker) route(config Config, server *rest.Server, logger *slog.Logger) error {
	document, err := oapi.Parse(workerapi.Document)
	if err != nil {
		return err
	}
	key := workerKey(config)
	server.Console = access.Console{Address: w.address, Tokens: w.tickets}
	server.Recordings = access.Recordings{Address: w.address, Tokens: w.tickets}
	guard, err := oapi.NewGuard(document, oapi.Options{
		Authenticators: map[string]oapi.Authenticator{
			"workerKey": key.Authenticate, "consoleCookie": server.Console.Authenticate, "recordingCookie": server.Recordings.Authenticate,
		},
	})
	if err != nil {
		return err
	}
	w.options = httpd.Options{
		Logger: logger, Document: document, Name: "svc-worker", Version: program.Version, TrustedProxies: config.TrustedProxies,
		MaxHeaderBytes: maxHeaderBytes, MaxConnections: maxConnections, Traces: w.traces,
	}
	w.web = httpd.New(w.options)
	if config.WorkerID != "" {
		w.web.Pre(stripPrefix("/w/" + config.WorkerID))
	}
	w.web.Use(guard.Middleware())
	links := access.Links{Address: w.address, Tokens: w.tickets}
	w.contract = document.ContractVersion()
	server.Links, server.ContractVersion = links, w.contract
	workerapi.RegisterHandlers(w.web, workerapi.NewStrictHandler(server, nil))
	playwrightDir, err := config.playwrightDir()
	if err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}
	versions := playwrightFinder{w.launcher, playwrightDir}
	w.registerBrowsers(config, links, guard, server, key, versions.traceViewer)
	w.sockets = launchsock.New(launchsock.Options{
		Launches: w.launches, Links: links, Parse: launchParser(guard), Logger: logger, Recording: server.RecordingOf,
		Playwright: versions.find,
	})
	w.closers.AddFunc(w.sockets.Close)
	w.sockets.Register(w.web)
	if err := w.registerMCP(guard, key, logger); err != nil {
		return err
	}
	w.renders = render.New(render.Options{
		Launches: w.launches, Browsers: browserFinder{w.launches}, Pages: w.relay, Address: w.address, IsWorkerKey: key.Matches,
		Inspect: guard.Inspect, Convert: rest.LaunchRequest, Logger: logger,
	})
	w.closers.AddFunc(w.renders.Close)
	w.renders.Register(w.web)
	w.registerWebDriver(guard, server, key, logger)
	w.metrics.MustRegister(newStateCollector(w), metrics.NewBuildInfo("svc_worker", program.Version, document.ContractVersion()))
	config.Metrics.Register(w.web, w.metricsHandler(), key.Matches)
	return w.registerConsole(server.Recordings)
}

// registerBrowsers registers the routes of running browsers, and their files and recordings.
func (w *worker) registerBrowsers(config Config, links access.Links, guard *oapi.Guard, server *rest.Server, key access.Key, viewer fileserver.TraceViewer) {
	w.relay = devtools.New(devtools.Options{
		Links: links, Tickets: w.tickets, End: w.killLaunch, Logs: w.logs, Secrets: launchSecrets{w.launches, w.cloud}, Resume: resume.Options{ResumeTimeout: resumeTimeout, Buffer: resumeBuffer},
	})
	w.closers.Add(w.relay.Close)
	live := view.New(view.Options{Streamer: streamer{}, Logger: w.logger})
	w.closers.Add(live.Close)
	gates := access.New(access.Options{
		Browsers: browserFinder{w.launches}, Tickets: w.tickets, WorkerKey: key.Matches, Address: w.address, Check: guard.Inspect,
		FrameAncestors: config.FrameAncestors,
	})
	gates.RegisterRoot(w.web)
	w.fileServer = fileserver.New(w.files, w.recordings, recorder{w, server.RecordingOf}, viewer, w.address)
	w.fileServer.Register(w.web)
	gates.Register(w.web, slices.Concat(w.relay.Routes(), live.Routes(), w.fileServer.Routes(), server.Routes())...)
	w.web.Match([]string{http.MethodGet, http.MethodHead}, "/browsers/:launchId", view.AddSlash)
}

// registerConsole registers the web console at /, which no operation uses, and the player
// and the trace viewer of recordings, which are pages of it.
func (w *worker) registerConsole(recordings access.Recordings) error {
	public, err := url.Parse(w.address.String())
	if err != nil {
		return err
	}
	bundle, err := webapp.New(console.Files, webapp.Options{Public: public, Frames: true})
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	bundle.Register(w.web, "/")
	for _, page := range []string{"player", "viewer"} {
		w.web.Match([]string{http.MethodGet, http.MethodHead}, "/sessions/:sessionId/recording/"+page, recordings.Page(bundle.Page))
	}
	return nil
}

// killLaunch ends a launch at the request of a client that controls it.
func (w *worker) killLaunch(ctx context.Context, launchID string) error {
	id, err := uuid.Parse(launchID)
	if err != nil {
		return fmt.Errorf("launch id: %w", err)
	}
	_, err = w.launches.KillLaunch(ctx, id, session.ByRequest)
	return err
}

// workerKey returns the worker key. A generated key is printed once for the
// operator. It is never logged.
func workerKey(config Config) access.Key {
	key, newKey := access.NewKey(config.WorkerKey, config.organizationKey())
	if newKey != "" {
		fmt.Printf("Neither API_KEY nor SVC_KEY is set. Generated worker key, valid until the next start:\n\n  %s\n\n", newKey)
	}
	return key
}

// stripPrefix makes the worker reachable below a path prefix too, for load
// balancers that keep the prefix.
func stripPrefix(prefix string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			address := c.Request().URL
			switch rest, ok := strings.CutPrefix(address.Path, prefix); {
			case ok && rest == "":
				address.Path, address.RawPath = "/", ""
			case ok && rest[0] == '/':
				address.Path, address.RawPath = rest, strings.TrimPrefix(address.RawPath, prefix)
			}
			return next(c)
		}
	}
}
