package app

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// listsSQL fills an organization with 500 machines, 10,000 ended and 5,000 running
// sessions, and 2,000 profiles.
const listsSQL = `
INSERT INTO license_machines (organization_id, machine_id, boot_id, seq, heartbeat_at)
SELECT '{organizationId}', 'machine-' || i, gen_random_uuid(), 1, now() - i * interval '1 s' FROM generate_series(1, 500) i;
INSERT INTO license_machine_info (organization_id, machine_id, key_id, host_name, version, max_sessions, draining, changed_at)
SELECT '{organizationId}', 'machine-' || i, '{keyId}', 'browsers-' || i || '.example.com', '1.0.0', 20, i % 10 = 0, now() FROM generate_series(1, 500) i;
INSERT INTO license_slots (id, organization_id, profile_id, session_id, machine_id, boot_id, state, reserved_at, started_at, lease_until)
SELECT gen_random_uuid(), '{organizationId}', '{profileId}', gen_random_uuid(), 'machine-' || 1 + i % 500, gen_random_uuid(), 'running', now(), now(),
	now() + interval '1 hour' FROM generate_series(1, 5000) i;
INSERT INTO activity_sessions (id, organization_id, profile_id, profile_name, machine_id, key_id, launch_id, browser_version, status, end_reason,
	started_at, ended_at)
SELECT gen_random_uuid(), '{organizationId}', '{profileId}', 'Checkout', 'machine-' || 1 + i % 500, CASE i % 3 WHEN 0 THEN '{keyId}'::uuid END, gen_random_uuid(), 156,
	'exited', 'client_close', now() - i * interval '1 minute', now() FROM generate_series(1, 10000) i;
INSERT INTO profiles (id, organization_id, name, browser_version, os, created_by, created_at, updated_at)
SELECT gen_random_uuid(), '{organizationId}', 'Profile ' || i, 156, 'linux', '{ownerId}', now(), now() FROM generate_series(1, 2000) i`

// BenchmarkLists measures the list pages of the dashboard over HTTP, with sign-in and
// access checks. It reports the median and the maximum of each.
func BenchmarkLists(b *testing.B) {
	h := newTestEnv(b, nil)
	v := newTenant(cheapHash(b))
	h.all.MustExec(v.fill(accessSQL))
	h.all.MustExec(v.fill(listsSQL))
	dbtest.Open(b, h.dsn, pg.Options{Statement: time.Minute}).MustExecContext(b.Context(), `VACUUM ANALYZE`)
	token := h.signIn(b, v, "owner")
	for _, path := range []string{
		"/v1/machines?limit=100", "/v1/machines?limit=100&page=5&sortBy=hostName", "/v1/machines?state=offline&keyId={keyId}&search=example",
		"/v1/sessions?limit=100", "/v1/sessions?limit=100&page=100", "/v1/sessions?keyId={keyId}", "/v1/sessions/{pastId}",
		"/v1/profiles?limit=100", "/v1/profiles?limit=100&page=20&sortBy=name", "/v1/profiles?search=e%201999",
	} {
		b.Run(path, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				get(b, h.url+v.fill(path), token)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
		})
	}
}

func get(b *testing.B, address, token string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.Fatalf("%s: %d %s, %v", address, answer.StatusCode, text, err)
	}
}
