package rest_test

import (
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func (a *licenseAPI) usage(query string, caller credential) cloudapi.LicenseUsage {
	a.t.Helper()
	return decode[cloudapi.LicenseUsage](a.t, a.do("GET", "/v1/license/usage"+query, caller, nil), 200)
}

func TestLicenseUsage_ShowsSlotsAndRefusals(t *testing.T) {
	a := newLicenseAPI(t)
	a.start(a.reserve()).want(t, 201, "")
	a.reserve()
	a.db.MustExec(`INSERT INTO license_events (organization_id, kind, count) VALUES ($1, 'refused', 4)`, a.org)
	for name, caller := range map[string]credential{"a worker": a.worker, "a member": a.caller} {
		got := a.usage("", caller)
		last := got.Points[len(got.Points)-1]
		if got.Current != 2 || *got.Limit != 2 || got.RunningSessions != 1 || got.ReservedSlots != 1 || got.Step != "15m" || got.StepSeconds != 900 || got.DataFrom != nil {
			t.Errorf("%s got %+v", name, got)
		}
		if last.RunningSessions != 1 || last.ReservedSlots != 1 || last.Maximum != 2 || *last.Limit != 2 || last.Refused != 4 || got.At.Sub(last.At) >= 15*time.Minute {
			t.Errorf("%s: last step %+v", name, last)
		}
	}
}

func TestLicenseUsage_AcceptsEachStep(t *testing.T) {
	a := newLicenseAPI(t)
	for step, seconds := range map[string]int32{
		"1m": 60, "5m": 300, "15m": 900, "30m": 1800, "1h": 3600, "3h": 10800, "6h": 21600, "12h": 43200, "1d": 86400,
	} {
		got := a.usage("?from=2026-11-21T00:00:00Z&to=2026-11-21T12:00:00Z&step="+step, a.worker)
		if want := int(max(43200/seconds, 1)); got.StepSeconds != seconds || len(got.Points) != want {
			t.Errorf("%s: %d points of %d seconds, want %d", step, len(got.Points), got.StepSeconds, want)
		}
	}
	for _, query := range []string{
		"?step=2m", "?from=x", "?to=1", "?from=2026-11-22T00:00:00Z&to=2026-11-21T00:00:00Z", "?from=2026-11-01T00:00:00Z&to=2026-11-21T00:00:00Z&step=1m", "?page=1",
	} {
		a.wrong("GET", "/v1/license/usage"+query, a.worker, nil).want(t, 400, "VALIDATION_ERROR")
	}
	a.do("GET", "/v1/license/usage", credential{}, nil).want(t, 401, "AUTHENTICATION_ERROR")
}
