package rest_test

import (
	"net/url"
	"testing"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestTimeFilter_AcceptsAnyZone(t *testing.T) {
	a := newOperationsAPI(t)
	a.record(a.org, "profile.created", "one") // at 12:01 UTC
	for since, want := range map[string]int64{
		"2026-11-21T12:00:00Z":      1,
		"2026-11-22T11:59:00+23:59": 1, // 12:00 UTC, with an offset that PostgreSQL does not accept
		"2026-11-20T12:02:00-23:59": 1,
		"2026-11-22T12:01:00+23:59": 0, // 12:02
		"0001-01-02T00:00:00+23:59": 1, // the earliest possible minutes
	} {
		answer := a.do("GET", "/v1/audit-events?from="+url.QueryEscape(since), bearer("owner"), nil)
		if list := decode[cloudapi.AuditEventList](t, answer, 200); list.Pagination.Total != want {
			t.Errorf("from %s: %d events, want %d", since, list.Pagination.Total, want)
		}
	}
}

func TestTimeFilter_RefusesOutOfRangeYears(t *testing.T) {
	a := newOperationsAPI(t)
	for _, since := range []string{"9999-12-31T23:00:00-01:30", "0000-01-01T00:00:00+00:01", "0000-06-01T00:00:00Z", "0001-01-01T00:00:00+00:01"} {
		a.do("GET", "/v1/audit-events?from="+url.QueryEscape(since), bearer("owner"), nil).want(t, 400, "VALIDATION_ERROR")
	}
}
