package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/cloud"
)

// The browsers are looked for at most this often, and for at most this long.
const (
	browserCheckPeriod  = 5 * time.Second
	browserCheckTimeout = time.Second
)

// newReadiness reports whether this worker would accept a launch. The checks only
// read state: they make no calls and take no measurements.
func (w *worker) newReadiness(config Config, logger *slog.Logger) *httpd.Readiness {
	browsers := httpd.NewCache(browserCheckPeriod, browserCheckTimeout, nil, w.browserReasons)
	w.closers.AddFunc(browsers.Close)
	return httpd.NewReadiness(logger,
		func(context.Context) []httpd.Reason { return drainingReasons(w.launches.Draining()) },
		func(context.Context) []httpd.Reason { return config.isolationReasons(w.launcher.Isolation()) },
		browsers.Get,
		func(context.Context) []httpd.Reason { return config.licenseReasons(w.cloud.License()) },
		func(context.Context) []httpd.Reason { return w.host.reasons(w.launches.Counts()) },
	)
}

func drainingReasons(is bool) []httpd.Reason {
	if !is {
		return nil
	}
	return []httpd.Reason{{
		Check: httpd.Draining, Code: httpd.Draining, Message: "This worker is draining. DELETE /fleet/drain resumes service unless the worker is shutting down.",
	}}
}

// isolationReasons returns why a worker with MIN_ISOLATION=full can no longer
// separate launches. Such a worker does not start without it.
func (c Config) isolationReasons(report sandbox.Report) []httpd.Reason {
	missing := report.Inseparable()
	if c.MinIsolation != isolationFull || len(missing) == 0 {
		return nil
	}
	return []httpd.Reason{{
		Check: "isolation", Code: "isolation",
		Message: "MIN_ISOLATION is full, but this host does not allow " + missing[0].Name + ". GET /fleet/status shows the reason.",
	}}
}

// browserReasons returns why no browser can be launched. A browser that is still asked
// for its version counts as usable: launches wait for it, too.
func (w *worker) browserReasons(ctx context.Context) []httpd.Reason {
	reason := httpd.Reason{Check: "browser", Code: "no_browser"}
	switch installed, err := w.builds.Find(ctx); {
	case errors.Is(err, builds.ErrUnusablePath):
		reason.Message = fault.From(err).Message
	case err == nil && len(installed) == 0:
		reason.Message = "No Chromium is installed. Install the package chromium, set CHROMIUM_PATH, or add a build with svc-worker browsers install."
	default:
		return nil
	}
	return []httpd.Reason{reason}
}

// licenseReasons returns why the cloud would not allow a launch with the worker's
// own key.
func (c Config) licenseReasons(state cloud.LicenseState) []httpd.Reason {
	reason := httpd.Reason{Check: "license"}
	switch state {
	case cloud.LicenseUnreachable:
		reason.Code, reason.Message = "cloud_unreachable", "The cloud (SVC_CLOUD_URL) is unreachable or returns invalid answers."
	case cloud.LicenseKeyRefused:
		reason.Code, reason.Message = "key_refused", "The cloud refuses this worker's organization key (SVC_KEY). The operator must replace it."
	case cloud.LicenseIncompatible:
		reason.Code, reason.Message = "cloud_incompatible", "The cloud implements another major version of the contract than this worker. Update one of them."
	case cloud.LicenseNoKey:
		if c.OrganizationKey == noKey {
			return nil
		}
		reason.Code, reason.Message = "no_key", "This worker has no organization key (SVC_KEY). Set one, or none if the worker serves launches over /launch only."
	default:
		return nil
	}
	return []httpd.Reason{reason}
}

// reasons returns the limits of this machine that are reached.
func (h *host) reasons(running, launching int) []httpd.Reason {
	var found []httpd.Reason
	for _, limit := range h.ReachedLimits(running, launching) {
		found = append(found, httpd.Reason{Check: "capacity", Code: limit.Reason, Message: limit.Message})
	}
	return found
}
