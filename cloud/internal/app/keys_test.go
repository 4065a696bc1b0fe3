package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/browsers/profile"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
)

// keyClient is an organization whose worker has already authorized a launch, so that
// its key is cached.
type keyClient struct {
	t             *testing.T
	h             *testEnv
	user, org     uuid.UUID
	slug          string
	key           apikey.Key
	secret        string
	profile, boot uuid.UUID
	session       uuid.UUID // holds a slot
}

func (h *testEnv) newKeyClient(t *testing.T) *keyClient {
	t.Helper()
	k := &keyClient{t: t, h: h, user: uuid.Must(uuid.NewV7()), boot: uuid.Must(uuid.NewV7()), session: uuid.Must(uuid.NewV7())}
	_, err := h.all.ExecContext(t.Context(), `INSERT INTO users (id, email, name, password_hash, created_at, email_verified_at)
		VALUES ($1, $2, 'U', '-', now(), now())`, k.user, k.user.String()+"@example.com")
	k.must(err)
	created, err := h.parts.organizations.Create(t.Context(), k.user, org.NewOrganization{Name: "Works " + k.user.String()})
	k.must(err)
	k.org, k.slug = created.ID, created.Slug
	k.key, k.secret, err = h.parts.keys.Create(t.Context(), k.org, k.user, apikey.NewKey{Name: "fleet"})
	k.must(err)
	p, err := h.parts.profiles.Create(t.Context(), k.org, k.user, profile.Draft{Fields: profile.Fields{Name: "P", BrowserVersion: 156}})
	k.must(err)
	k.profile = p.ID
	k.limit(2)
	for range 2 { // the first request caches the key
		k.want("authorize", k.ask(k.launch(k.session)), http.StatusOK)
	}
	return k
}

func (k *keyClient) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// limit sets the organization's slot limit.
func (k *keyClient) limit(slots int) {
	k.t.Helper()
	_, err := k.h.all.ExecContext(k.t.Context(), `UPDATE license_org SET max_slots = $2 WHERE organization_id = $1`, k.org, slots)
	k.must(err)
}

// launch returns the body of an authorize request for the profile.
func (k *keyClient) launch(session uuid.UUID) string {
	return k.launchOf(session, fmt.Sprintf(`"profileId": %q`, k.profile))
}

func (k *keyClient) launchOf(session uuid.UUID, what string) string {
	return fmt.Sprintf(`{"machineId": "worker-1", "bootId": %q, "sessionId": %q, %s}`, k.boot, session, what)
}

// ask sends an authorize request and returns the status.
func (k *keyClient) ask(body string, headers ...string) int {
	k.t.Helper()
	return k.send(http.MethodPost, "/v1/license/authorize", body, headers...)
}

func (k *keyClient) send(method, path, body string, headers ...string) int {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), method, k.h.url+path, strings.NewReader(body))
	k.must(err)
	r.Header.Set("X-API-Key", k.secret)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	k.must(err)
	k.must(answer.Body.Close())
	return answer.StatusCode
}

func (k *keyClient) want(what string, got, want int) {
	k.t.Helper()
	if got != want {
		k.t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

// fresh returns the body of an authorize request for a new session.
func (k *keyClient) fresh(what string) string { return k.launchOf(uuid.Must(uuid.NewV7()), what) }

// workerRequests are requests of a worker with the status that each gets with a valid
// key. full means that all slots of the organization are taken.
var workerRequests = []struct {
	what   string
	full   bool
	status int
	send   func(k *keyClient) int
}{
	{"a slot", false, 200, func(k *keyClient) int { return k.ask(k.launch(uuid.Must(uuid.NewV7()))) }},
	{"a slot again", false, 200, func(k *keyClient) int { return k.ask(k.launch(k.session)) }},
	{"a slot again, when full", true, 200, func(k *keyClient) int { return k.ask(k.launch(k.session)) }},
	{"a slot with an Idempotency-Key", false, 200, func(k *keyClient) int { return k.ask(k.launch(uuid.Must(uuid.NewV7())), "Idempotency-Key", "one") }},
	{"a slot with a spec", false, 200, func(k *keyClient) int { return k.ask(k.fresh(`"spec": {"browserVersion": 156}`)) }},
	{"a slot, when full", true, 402, func(k *keyClient) int { return k.ask(k.launch(uuid.Must(uuid.NewV7()))) }},
	{"a slot with a spec, when full", true, 402, func(k *keyClient) int { return k.ask(k.fresh(`"spec": {"browserVersion": 156}`)) }},
	{"the session of another machine", false, 409, func(k *keyClient) int {
		return k.ask(strings.Replace(k.launch(k.session), "worker-1", "worker-2", 1))
	}},
	{"an unknown profile", false, 404, func(k *keyClient) int { return k.ask(k.fresh(`"profileId": "` + uuid.NewString() + `"`)) }},
	{"a spec without a version", false, 400, func(k *keyClient) int { return k.ask(k.fresh(`"spec": {}`)) }},
	{"an invalid body", false, 400, func(k *keyClient) int { return k.ask(`{}`) }},
	{"a body that is not JSON", false, 415, func(k *keyClient) int { return k.ask("a", "Content-Type", "text/plain") }},
	{"another operation", false, 200, func(k *keyClient) int { return k.send("GET", "/v1/license/sessions", "") }},
}

// TestAuthorize_RefusesCachedKeyOnceInvalid checks that an invalid key is refused
// although it is cached, for every kind of answer that a valid key would get.
func TestAuthorize_RefusesCachedKeyOnceInvalid(t *testing.T) {
	h := newTestEnv(t, nil)
	for name, invalidate := range map[string]func(k *keyClient) error{
		"good": nil,
		"revoked": func(k *keyClient) error {
			return h.parts.keys.Revoke(k.t.Context(), k.org, k.key.ID)
		},
		"expired": func(k *keyClient) error {
			_, err := h.all.ExecContext(k.t.Context(), `UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = $1`, k.key.ID)
			return err
		},
		"of a deleted organization": func(k *keyClient) error {
			return h.parts.organizations.Delete(k.t.Context(), k.org, k.user, k.slug)
		},
	} {
		for _, ask := range workerRequests {
			t.Run(name+": "+ask.what, func(t *testing.T) {
				k := h.newKeyClient(t)
				if ask.full {
					k.limit(1)
					k.want("a launch above the limit", k.ask(k.launch(uuid.Must(uuid.NewV7()))), http.StatusPaymentRequired)
				}
				if invalidate == nil {
					k.want(ask.what, ask.send(k), ask.status)
					return
				}
				k.must(invalidate(k))
				before := k.rowCount()
				k.want(ask.what, ask.send(k), http.StatusUnauthorized)
				if after := k.rowCount(); after != before {
					t.Errorf("got %d slots and profiles, want %d as before", after, before)
				}
			})
		}
	}
}

// rowCount returns the number of slots and profiles of the organization.
func (k *keyClient) rowCount() (n int) {
	k.t.Helper()
	k.must(k.h.all.GetContext(k.t.Context(), &n, `SELECT (SELECT count(*) FROM license_slots WHERE organization_id = $1)
		+ (SELECT count(*) FROM profiles WHERE organization_id = $1)`, k.org))
	return n
}
