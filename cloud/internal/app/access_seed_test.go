package app

import (
	"crypto/rand"
	_ "embed"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/testenv"
)

//go:embed testdata/access.sql
var accessSQL string

const (
	password       = "correct horse battery staple"
	releaseVersion = "156.0.8078.79"
)

// tenant holds the values of one organization and its resources by name. The names are
// the placeholders in access.sql, in the document's paths and in requests.
type tenant map[string]string

// newTenant returns a tenant with unique values, so that a value in a response
// identifies the organization.
func newTenant(passwordHash string) tenant {
	v := tenant{"mark": hex.EncodeToString(random(6)), "passwordHash": passwordHash}
	for _, name := range []string{
		"organizationId", "besideId", "ownerId", "partnerId", "adminId", "memberId", "otherId", "formerId", "profileId", "idleProfileId",
		"addOnId", "invoiceId", "invitationId", "keyId", "slotId", "sessionId", "bootId", "pastId", "versionId", "secretId", "tokenId", "serviceAccountId", "accountTokenId",
		"endpointId", "eventId", "deliveryId",
	} {
		v[name] = uuid.Must(uuid.NewV7()).String()
	}
	for _, name := range []string{"key", "revokedKey", "expiredKey"} {
		v[name] = "svc_" + strings.ToLower(base32.StdEncoding.EncodeToString(random(20)))
	}
	v["token"] = "svct_" + base64.RawURLEncoding.EncodeToString(random(32))
	return v
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// randomAddress returns a random client address, one of 16 million.
func randomAddress() string {
	return netip.AddrFrom4([4]byte(append([]byte{10}, random(3)...))).String()
}

// fill replaces the placeholders in a text.
func (v tenant) fill(text string) string {
	var pairs []string
	for name, value := range v {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// leaks returns the names of the tenant's values that the answer contains, but the
// request does not.
func (v tenant) leaks(answer, request string) (names []string) {
	for name, value := range v {
		if strings.Contains(answer, value) && !strings.Contains(request, value) {
			names = append(names, name)
		}
	}
	return names
}

// sees reports whether the text contains a value of the tenant.
func (v tenant) sees(text string) bool { return len(v.leaks(text, "")) > 0 }

// cheapHash returns a hash of the password with minimal cost. The cost is stored in the
// hash.
func cheapHash(t testing.TB) string {
	t.Helper()
	hash, err := argon2id.CreateHash(password, &argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// credential is a kind of credential that a request can send, with the properties that
// the rules need.
type credential struct {
	name   string
	scheme string   // the security scheme that it satisfies; "" for none
	user   string   // the user in access.sql; "" for no session
	role   string   // in the organization
	idle   bool     // the session has no active organization
	beside bool     // the active organization of the session is another organization of the user
	former bool     // the user was removed from the organization, which is still active in the session
	away   bool     // the credential belongs to another organization, in which the role is owner
	scopes []string // of an access token; nil for other credentials
	robot  bool     // the access token is one of a service account
	show   func(a *call, h http.Header)
}

const (
	byCookie = "dashboardSession"
	byBearer = "dashboardBearer"
	byKey    = "organizationKey"

	byMetricsToken = "metricsToken"
)

func showCookie(a *call, h http.Header) { h.Set("Cookie", "svc_session="+a.token) }
func showBearer(a *call, h http.Header) { h.Set("Authorization", "Bearer "+a.token) }

func showKey(name string) func(*call, http.Header) {
	return func(a *call, h http.Header) { h.Set("X-API-Key", a.callerTenant()[name]) }
}

// showRevokedKey shows a key that was revoked after its first use, so that the service
// recalls it.
func showRevokedKey(a *call, h http.Header) {
	_, err := a.env.parts.keyVerifier.Verify(a.t.Context(), a.ours["revokedKey"])
	a.must(err)
	testenv.Eventually(a.t, "the use of the key is recorded", func() (recorded bool) {
		a.must(a.env.all.GetContext(a.t.Context(), &recorded,
			a.fill(`SELECT last_used_at IS NOT NULL FROM api_keys WHERE key_hash = sha256('{revokedKey}')`)))
		return recorded
	})
	a.exec(`UPDATE api_keys SET revoked_at = now() WHERE key_hash = sha256('{revokedKey}')`)
	showKey("revokedKey")(a, h)
}

// credentials are the columns of the table. Those without a scheme are
// invalid, or sent in the wrong place.
var credentials = []credential{
	{name: "none", show: func(*call, http.Header) {}},
	{name: "owner", scheme: byCookie, user: "owner", role: "owner", show: showCookie},
	{name: "owner, Bearer", scheme: byBearer, user: "owner", role: "owner", show: showBearer},
	{name: "admin", scheme: byCookie, user: "admin", role: "admin", show: showCookie},
	{name: "member", scheme: byBearer, user: "member", role: "member", show: showBearer},
	{name: "owner, none active", scheme: byCookie, user: "partner", role: "owner", idle: true, show: showCookie},
	{name: "owner, another active", scheme: byBearer, user: "partner", role: "owner", beside: true, show: showBearer},
	{name: "owner elsewhere", scheme: byBearer, user: "owner", role: "owner", away: true, show: showBearer},
	{name: "removed member", scheme: byBearer, user: "former", former: true, show: showBearer},
	{name: "ended session", user: "owner", show: func(a *call, h http.Header) {
		a.must(a.env.parts.accounts.SignOut(a.t.Context(), a.token))
		showCookie(a, h)
	}},
	{name: "key", scheme: byKey, show: showKey("key")},
	{name: "key elsewhere", scheme: byKey, away: true, show: showKey("key")},
	{name: "revoked key", show: showRevokedKey},
	{name: "expired key", show: showKey("expiredKey")},
	{name: "key as Bearer", show: func(a *call, h http.Header) { h.Set("Authorization", "Bearer "+a.ours["key"]) }},
	{name: "session as key", user: "owner", show: func(a *call, h http.Header) { h.Set("X-API-Key", a.token) }},
	{name: "metrics token", scheme: byMetricsToken, show: func(_ *call, h http.Header) { h.Set("Authorization", "Bearer "+metricsToken) }},
}

// signIn begins a session of a user of access.sql and returns its token.
func (h *testEnv) signIn(t testing.TB, v tenant, user string) string {
	t.Helper()
	session, err := h.parts.accounts.SignInAs(t.Context(), auth.Client{Address: "192.0.2.1"}, auth.Identity{
		Issuer: "https://id.example.com", Subject: v[user+"Id"], EmailVerified: true, Email: user + "-" + v["mark"] + "@example.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	return session.Token
}

// signInProvider starts an OpenID provider that supports only the start of a sign-in.
func signInProvider(t *testing.T) (issuer string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := "http://" + r.Host
		_ = json.NewEncoder(w).Encode(map[string]string{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token", "jwks_uri": base + "/keys",
		})
	}))
	t.Cleanup(server.Close)
	return server.URL
}
