package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/apikey"
	"github.com/browser-svc/svc/cloud/internal/org"
	"github.com/browser-svc/svc/cloud/internal/profile"
)

// keyClient is an organization whose worker has asked for a launch before, so that
// its key is known.
type keyClient struct {
	t             *testing.T
	h             *testEnv
	user, org     uuid.UUID
	slug          string
	key           apikey.Key
	secret        string
	profile, boot uuid.UUID
	session       uuid.UUID // that has a slot
}

func (h *testEnv) newKeyClient(t *testing.T) *keyClient {
	t.Helper()
	k := &keyClient{t: t, h: h, user: uuid.Must(uuid.NewV7()), boot: uuid.Must(uuid.NewV7()), session: uuid.Must(uuid.NewV7())}
	_, err := h.all.ExecContext(t.Context(), `INSERT INTO users (id, email, name, password_hash, created_at, email_verified_at)
		VALUES ($1, $2, 'U', '-', now(), now())`, k.user, k.user.String()+"@example.com")
	k.must(err)
	made, err := h.parts.organizations.Create(t.Context(), k.user, org.NewOrganization{Name: "Works " + k.user.String()})
	k.must(err)
	k.org, k.slug = made.ID, made.Slug
	k.key, k.secret, err = h.parts.keys.Create(t.Context(), k.org, k.user, apikey.NewKey{Name: "fleet"})
	k.must(err)
	p, err := h.parts.profiles.Create(t.Context(), k.org, k.user, profile.Draft{Fields: profile.Fields{Name: "P", BrowserVersion: 156}})
	k.must(err)
	k.profile = p.ID
	k.limit(2)
	for range 2 { // the second time it is known
		k.want("asking for a slot", k.ask(k.launch(k.session)), http.StatusOK)
	}
	return k
}

func (k *keyClient) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// limit lets the organization have that many slots.
func (k *keyClient) limit(slots int) {
	k.t.Helper()
	_, err := k.h.all.ExecContext(k.t.Context(), `UPDATE license_org SET max_slots = $2 WHERE organization_id = $1`, k.org, slots)
	k.must(err)
}

// launch is the body of an authorize.
func (k *keyClient) launch(session uuid.UUID) string {
	return k.launchOf(session, fmt.Sprintf(`"profileId": %q`, k.profile))
}

func (k *keyClient) launchOf(session uuid.UUID, what string) string {
	return fmt.Sprintf(`{"machineId": "worker-1", "bootId": %q, "sessionId": %q, %s}`, k.boot, session, what)
}

// ask asks for a launch, and returns the status.
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
		k.t.Errorf("%s answers %d, want %d", what, got, want)
	}
}

// fresh returns the body of an authorize request for a new session.
func (k *keyClient) fresh(what string) string { return k.launchOf(uuid.Must(uuid.NewV7()), what) }

// asks are the requests of a worker, each with what it is answered while the key
// is good, in an organization whose slots are all taken or not.
var asks = []struct {
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
	{"a profile that is not there", false, 404, func(k *keyClient) int { return k.ask(k.fresh(`"profileId": "` + uuid.NewString() + `"`)) }},
	{"a spec without a version", false, 400, func(k *keyClient) int { return k.ask(k.fresh(`"spec": {}`)) }},
	{"a body that is wrong", false, 400, func(k *keyClient) int { return k.ask(`{}`) }},
	{"a body that is no JSON", false, 415, func(k *keyClient) int { return k.ask("a", "Content-Type", "text/plain") }},
	{"another operation", false, 200, func(k *keyClient) int { return k.send("GET", "/v1/license/sessions", "") }},
}

// TestAuthorize_RefusesCachedKeyOnceInvalid: what is remembered of a key
// lets nobody in, whatever the request would have been answered.
func TestAuthorize_RefusesCachedKeyOnceInvalid(t *testing.T) {
	h := newTestEnv(t, nil)
	for name, spoil := range map[string]func(k *keyClient) error{
		"good": nil,
		"revoked": func(k *keyClient) error {
			return h.parts.keys.Revoke(k.t.Context(), k.org, k.key.ID)
		},
		"expired": func(k *keyClient) error {
			_, err := h.all.ExecContext(k.t.Context(), `UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = $1`, k.key.ID)
			return err
		},
		"of an organization that is deleted": func(k *keyClient) error {
			return h.parts.organizations.Delete(k.t.Context(), k.org, k.user, k.slug)
		},
	} {
		for _, ask := range asks {
			t.Run(name+": "+ask.what, func(t *testing.T) {
				k := h.newKeyClient(t)
				if ask.full {
					k.limit(1)
					k.want("a launch too many", k.ask(k.launch(uuid.Must(uuid.NewV7()))), http.StatusPaymentRequired)
				}
				if spoil == nil {
					k.want(ask.what, ask.send(k), ask.status)
					return
				}
				k.must(spoil(k))
				before := k.taken()
				k.want(ask.what, ask.send(k), http.StatusUnauthorized)
				if after := k.taken(); after != before {
					t.Errorf("%d slots and profiles are there, before it were %d", after, before)
				}
			})
		}
	}
}

// taken is how many slots and profiles the organization has.
func (k *keyClient) taken() (n int) {
	k.t.Helper()
	k.must(k.h.all.GetContext(k.t.Context(), &n, `SELECT (SELECT count(*) FROM license_slots WHERE organization_id = $1)
		+ (SELECT count(*) FROM profiles WHERE organization_id = $1)`, k.org))
	return n
}
