package app

import (
	"context"
	"log/slog"

	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/sandbox"
)

// newReadiness is whether this worker would take a launch. Its checks ask nobody
// and measure nothing.
func (w *worker) newReadiness(config Config, logger *slog.Logger) *httpd.Readiness {
	return httpd.NewReadiness(logger,
		func(context.Context) []httpd.Reason { return drainingReasons(w.launches.Draining()) },
		func(context.Context) []httpd.Reason { return config.isolationReasons(w.launcher.Isolation()) },
		func(context.Context) []httpd.Reason { return config.licenseReasons(w.cloud.License()) },
		func(context.Context) []httpd.Reason { return w.host.reasons(w.launches.Counts()) },
	)
}

func drainingReasons(is bool) []httpd.Reason {
	if !is {
		return nil
	}
	return []httpd.Reason{{
		Check: httpd.Draining, Code: httpd.Draining, Message: "This worker is draining. DELETE /fleet/drain puts it back into service, unless it is shutting down.",
	}}
}

// isolationReasons are of a worker that must isolate launches and can't any
// more: it does not start where it never could.
func (c Config) isolationReasons(report sandbox.Report) []httpd.Reason {
	missing := report.Missing()
	if !c.RequireIsolation || len(missing) == 0 {
		return nil
	}
	return []httpd.Reason{{
		Check: "isolation", Code: "isolation",
		Message: "REQUIRE_ISOLATION is set, but this host denies launches " + missing[0].Name + ". GET /fleet/status tells why.",
	}}
}

// licenseReasons are what the cloud, or the lack of a key, has against a launch.
func (c Config) licenseReasons(state cloud.LicenseState) []httpd.Reason {
	reason := httpd.Reason{Check: "license"}
	switch state {
	case cloud.LicenseUnreachable:
		reason.Code, reason.Message = "cloud_unreachable", "The cloud (SVC_CLOUD_URL) cannot be reached or does not answer properly."
	case cloud.LicenseKeyRefused:
		reason.Code, reason.Message = "key_refused", "The cloud refuses this worker's organization key (SVC_KEY). The operator must replace it."
	case cloud.LicenseIncompatible:
		reason.Code, reason.Message = "cloud_incompatible", "The cloud keeps another major version of the contract than this worker. Update one of them."
	case cloud.LicenseNoKey:
		if c.AllowNoKey {
			return nil
		}
		reason.Code, reason.Message = "no_key", "This worker has no organization key (SVC_KEY). Set one, or ALLOW_NO_KEY where only launches over /launch are meant."
	default:
		return nil
	}
	return []httpd.Reason{reason}
}

// reasons are the limits of this machine that are reached.
func (h *host) reasons(running, launching int) []httpd.Reason {
	var found []httpd.Reason
	for _, limit := range h.ReachedLimits(running, launching) {
		found = append(found, httpd.Reason{Check: "capacity", Code: limit.Reason, Message: limit.Message})
	}
	return found
}
