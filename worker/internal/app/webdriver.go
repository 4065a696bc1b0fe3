package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/api/rest"
	"github.com/browser-svc/svc/worker/internal/api/webdriver"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

// registerWebDriver creates the WebDriver entry and registers its routes.
func (w *worker) registerWebDriver(guard *oapi.Guard, server *rest.Server, key access.Key, logger *slog.Logger) {
	finder := builds.NewDriverFinder(w.config.ChromeDriver, builds.FindOptions{Log: logger})
	drivers := webdriver.New(webdriver.Options{
		Launches: w.launches, Links: server.Links, Parse: launchParser(guard), IsWorkerKey: key.Matches,
		FindDriver: driverFinder{w.launcher, finder}.find, Reasons: w.readiness.Reasons, Recording: server.RecordingOf, Fleet: server.FleetStatus,
		IdleTimeout: w.config.Lifetimes.webDriver(), Logger: logger,
	})
	w.closers.AddFunc(drivers.Close)
	drivers.Register(w.web)
}

// driverFinder finds chromedriver where launches can use it.
type driverFinder struct {
	launcher *browser.Launcher
	drivers  *builds.DriverFinder
}

func (f driverFinder) find(ctx context.Context, build builds.Build) (string, error) {
	if !f.launcher.SupportsDrivers() {
		return "", fault.New(fault.NotInstalled, "WebDriver needs launches with a separate network, which the host of this worker does not allow. GET /fleet/status shows the reason.")
	}
	path, err := f.drivers.Find(ctx, build)
	if missing, ok := errors.AsType[*builds.NoDriverError](err); ok {
		return "", fault.New(fault.NotInstalled, missing.Error())
	}
	return path, err
}
