package app

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/contracttest"
)

// TestRateLimitHeaders_ForDashboardUsersOnly: the assembled cloud reports the plan's
// limits and does not refuse requests above them (specification 8).
func TestRateLimitHeaders_ForDashboardUsersOnly(t *testing.T) {
	h := newTestEnv(t, nil)
	v := newTenant(cheapHash(t))
	h.all.MustExec(v.fill(accessSQL))
	h.all.MustExec(v.fill(`UPDATE subscriptions SET base_api_rpm_limit = 3 WHERE organization_id = '{organizationId}'`))
	client, token := contracttest.New(t, h.document, nil), h.signIn(t, v, "owner")
	send := func(path, header, value string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(header, value)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	for i := range 6 {
		began := time.Now().Unix()
		answer := send("/v1/profiles", "Authorization", "Bearer "+token)
		left, err := strconv.Atoi(answer.Header.Get("X-RateLimit-Remaining"))
		reset, resetErr := strconv.ParseInt(answer.Header.Get("X-RateLimit-Reset"), 10, 64)
		if answer.StatusCode != 200 || answer.Header.Get("X-RateLimit-Limit") != "3" || err != nil || left > 2 || left < 2-i ||
			resetErr != nil || reset%60 != 0 || reset < began || reset > time.Now().Unix()+60 {
			t.Errorf("request %d: %d %v", i+1, answer.StatusCode, answer.Header)
		}
	}
	worker := send("/v1/license/sessions", "X-API-Key", v["key"])
	missing := send(v.fill("/v1/profiles/{ownerId}"), "Authorization", "Bearer "+token)
	for _, answer := range []*http.Response{worker, missing} {
		if got := answer.Header.Get("X-RateLimit-Limit"); got != "" {
			t.Errorf("%s has X-RateLimit-Limit %s", answer.Request.URL.Path, got)
		}
	}
	if worker.StatusCode != 200 || missing.StatusCode != 404 {
		t.Fatalf("got %d and %d", worker.StatusCode, missing.StatusCode)
	}
	var stats struct {
		Data struct{ APIRphUsed, APIRphLimit, APIRphRemaining int64 }
	}
	answer := send("/v1/profiles/stats", "Authorization", "Bearer "+token)
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
		t.Fatal(err)
	}
	// The hour may have changed since the first request, but not since this one.
	if got := stats.Data; got.APIRphUsed < 1 || got.APIRphUsed > 9 || got.APIRphRemaining != got.APIRphLimit-got.APIRphUsed {
		t.Errorf("stats %+v, want at most the nine requests", got)
	}
}
