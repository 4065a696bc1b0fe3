package access_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/browser-svc/svc/worker/internal/auth/ticket"
)

// statuses are the expected statuses of the routes of each kind.
type statuses struct{ asset, page, socket, view, viewAsset, stream int }

func (s statuses) byPath() map[string]int {
	return map[string]int{
		"/asset": s.asset, "/page": s.page, "/socket": s.socket,
		"/view": s.view, "/view-asset": s.viewAsset, "/stream": s.stream,
	}
}

var (
	open  = statuses{200, 200, 200, 200, 200, 200}
	shut  = statuses{404, 404, 404, 404, 404, 403}
	link  = statuses{200, 303, 200, 303, 200, 200} // ?ct=
	watch = statuses{404, 404, 404, 200, 200, 200}
	tlink = statuses{404, 404, 404, 303, 200, 200} // ?t=
)

// expect requests a route of each kind from a page of the worker, with new tokens in place of
// {ct} and {t}.
func (h *fixture) expect(t *testing.T, headers []string, query string, want statuses) {
	t.Helper()
	for path, want := range want.byPath() {
		filled := []string{"Sec-Fetch-Site", "same-origin"}
		for _, header := range headers {
			filled = append(filled, h.fillTokens(t, header))
		}
		got := do(t, "GET", h.urlOf(launch, path)+h.fillTokens(t, query), filled...)
		if got.status != want {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want)
		}
		if text := map[int]string{404: "unknown browser", 403: "forbidden"}[want]; text != "" && got.body != text {
			t.Errorf("%s: got body %q", path, got.body)
		}
	}
}

func TestAuthorizer_CredentialsByKindOfRoute(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	ctl, view := ticket.CookieName(launch, ticket.Control)+"=", ticket.CookieName(launch, ticket.View)+"="
	earlier := ticket.New(h.clock) // of the previous boot
	stale, staleView := mint(t, earlier, launch, ticket.Control), mint(t, earlier, launch, ticket.View)
	mixed := func(a, b statuses) statuses { // what both credentials together open
		return statuses{min(a.asset, b.asset), min(a.page, b.page), min(a.socket, b.socket), min(a.view, b.view), min(a.viewAsset, b.viewAsset), min(a.stream, b.stream)}
	}
	redirected := func(s statuses, page, view int) statuses { s.page, s.view = page, view; return s }

	for name, test := range map[string]struct {
		headers []string
		query   string
		want    statuses
	}{
		"nothing":                            {nil, "", shut},
		"token in the header":                {[]string{"X-Svc-Token", "{ct}"}, "", open},
		"token in the cookie":                {[]string{"Cookie", ctl + "{ct}"}, "", open},
		"token in the query":                 {nil, "?ct={ct}", link},
		"worker key":                         {[]string{"X-API-Key", workerKey}, "", open},
		"a wrong worker key":                 {[]string{"X-API-Key", workerKey + "x"}, "", shut},
		"an empty worker key":                {[]string{"X-API-Key", ""}, "", shut},
		"the worker key as bearer":           {[]string{"Authorization", "Bearer " + workerKey}, "", shut},
		"garbage in the header":              {[]string{"X-Svc-Token", "garbage"}, "", shut},
		"garbage in the cookie":              {[]string{"Cookie", ctl + "garbage"}, "", shut},
		"garbage in the query":               {nil, "?ct=garbage&t=garbage", shut},
		"an empty query":                     {nil, "?ct=&t=", shut},
		"another launch's token":             {[]string{"X-Svc-Token", h.token(t, other, ticket.Control)}, "?ct=" + h.token(t, other, ticket.Control), shut},
		"another launch's ticket":            {[]string{"Cookie", view + h.token(t, other, ticket.View)}, "?t=" + h.token(t, other, ticket.View), shut},
		"another launch's cookie":            {[]string{"Cookie", ticket.CookieName(other, ticket.Control) + "={ct}"}, "", shut},
		"the previous boot's token":          {[]string{"X-Svc-Token", stale, "Cookie", ctl + stale}, "?ct=" + stale, shut},
		"the previous boot's ticket":         {[]string{"Cookie", view + staleView}, "?t=" + staleView, shut},
		"the token as worker key":            {[]string{"X-API-Key", "{ct}"}, "", shut},
		"the worker key as token":            {[]string{"X-Svc-Token", workerKey}, "?ct=" + workerKey, shut},
		"the token in another header":        {[]string{"Authorization", "Bearer {ct}"}, "", shut},
		"the token as ticket":                {[]string{"Cookie", view + "{ct}"}, "?t={ct}", shut},
		"a stale cookie, a good link":        {[]string{"Cookie", ctl + stale}, "?ct={ct}", link},
		"two cookies, one good":              {[]string{"Cookie", ctl + stale + "; " + ctl + "{ct}"}, "", open},
		"a good cookie, a stale link":        {[]string{"Cookie", ctl + "{ct}"}, "?ct=" + stale, redirected(open, 303, 303)},
		"a bad header, a good cookie":        {[]string{"X-Svc-Token", "garbage", "Cookie", ctl + "{ct}"}, "", open},
		"a ticket in its cookie":             {[]string{"Cookie", view + "{t}"}, "", watch},
		"a ticket in its query":              {nil, "?t={t}", tlink},
		"a ticket in the header":             {[]string{"X-Svc-Token", "{t}"}, "", shut},
		"a ticket in the token's cookie":     {[]string{"Cookie", ctl + "{t}"}, "", shut},
		"a ticket in the token's query":      {nil, "?ct={t}", shut},
		"a ticket as worker key":             {[]string{"X-API-Key", "{t}"}, "", shut},
		"a stale ticket cookie, a good link": {[]string{"Cookie", view + staleView}, "?t={t}", tlink},
		"both cookies":                       {[]string{"Cookie", ctl + "{ct}; " + view + "{t}"}, "", open},
		"both links":                         {nil, "?ct={ct}&t={t}", redirected(link, 303, 303)},
		"a stale token, a good ticket":       {nil, "?ct=" + stale + "&t={t}", tlink},
		"a token's link, a ticket's cookie":  {[]string{"Cookie", view + "{t}"}, "?ct={ct}", redirected(mixed(link, watch), 303, 303)},
	} {
		t.Run(name, func(t *testing.T) { h.expect(t, test.headers, test.query, test.want) })
	}
	for _, secret := range append(h.minted, stale, staleView, workerKey) {
		if strings.Contains(h.log.String(), secret) {
			t.Error("the log contains a credential")
		}
	}
}

// TestAuthorizer_ProgramsReuseTokenInURL checks that a token in the URL authorizes
// every path that a program appends and every method, any number of times.
func TestAuthorizer_ProgramsReuseTokenInURL(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	control, view := h.token(t, launch, ticket.Control), h.token(t, launch, ticket.View)
	for _, request := range [][2]string{{"GET", "/asset"}, {"HEAD", "/asset"}, {"POST", "/change"}, {"PUT", "/many"}, {"GET", "/asset"}} {
		got := do(t, request[0], h.urlOf(launch, request[1])+"?x=1&ct="+control)
		if got.status != 200 || got.header.Get("Set-Cookie") != "" || got.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s %s: %d %s %v", request[0], request[1], got.status, got.body, got.header)
		}
		for _, query := range []string{"?t=" + control, "?t=" + view, "?ct=" + view, "?ct=" + h.token(t, other, ticket.Control)} {
			if got := do(t, request[0], h.urlOf(launch, request[1])+query); got.status != 404 {
				t.Errorf("%s %s with another launch's token: %d %s", request[0], request[1], got.status, got.body)
			}
		}
	}
	if strings.Contains(h.log.String(), control) {
		t.Error("the log contains the token")
	}
}

func TestAuthorizer_RefusesForgedTokens(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	for _, use := range []ticket.Use{ticket.Control, ticket.View} {
		good := h.token(t, launch, use)
		for name, token := range forgedTokens(t, good) {
			t.Run(string(use)+", "+name, func(t *testing.T) {
				cookies := ticket.CookieName(launch, ticket.Control) + "=" + token + "; " + ticket.CookieName(launch, ticket.View) + "=" + token
				h.expect(t, []string{"X-Svc-Token", token, "Cookie", cookies, "X-API-Key", token}, "?ct="+token+"&t="+token, shut)
			})
		}
	}
	h.expect(t, []string{"X-Svc-Token", h.token(t, launch, ticket.Control)}, "", open) // a genuine token works
}

// forgedTokens returns tokens that resemble the valid token good but are built without
// the secret.
func forgedTokens(t *testing.T, good string) map[string]string {
	t.Helper()
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.MapClaims
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	forged := map[string]string{
		"without its signature": head + "." + payload + ".",
		"alg none in its head":  base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + payload + ".",
		"RS256 in its head":     base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + payload + "." + signature,
	}
	for name, signed := range map[string]struct {
		method jwt.SigningMethod
		key    any
	}{
		"signed with alg none":       {jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType},
		"signed with another secret": {jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32))},
		"signed with no secret":      {jwt.SigningMethodHS256, []byte{}},
		"signed with RS256":          {jwt.SigningMethodRS256, rsaKey},
	} {
		forged[name], err = jwt.NewWithClaims(signed.method, claims).SignedString(signed.key)
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]any{"use": "control", "exp": 4102444800, "aud": []string{launch, other}, "iat": 0} {
		tampered := maps.Clone(claims)
		if tampered[name] == value {
			tampered["extra"] = true
		}
		tampered[name] = value
		text, err := json.Marshal(tampered)
		if err != nil {
			t.Fatal(err)
		}
		forged["with another "+name] = head + "." + base64.RawURLEncoding.EncodeToString(text) + "." + signature
	}
	return forged
}

func TestAuthorizer_RefusesExpiredTokens(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	control, view := h.token(t, launch, ticket.Control), h.token(t, launch, ticket.View)
	cookie := []string{"Cookie", ticket.CookieName(launch, ticket.View) + "=" + view}
	h.clock.Advance(15*time.Minute - time.Second)
	h.expect(t, cookie, "", watch)
	h.clock.Advance(time.Second)
	h.expect(t, cookie, "?t="+view, shut)
	h.clock.Advance(12*time.Hour - 15*time.Minute - time.Second)
	h.expect(t, []string{"X-Svc-Token", control}, "", open)
	h.clock.Advance(time.Second)
	h.expect(t, []string{"X-Svc-Token", control, "Cookie", ticket.CookieName(launch, ticket.Control) + "=" + control}, "?ct="+control, shut)
}

// TestAuthorizer_PassesCredentialToHandler checks that the handler gets the
// credential with the most permissions.
func TestAuthorizer_PassesCredentialToHandler(t *testing.T) {
	h := newFixture(t, "http://worker.example:38923")
	control, view := h.token(t, launch, ticket.Control), h.token(t, launch, ticket.View)
	viewCookie := ticket.CookieName(launch, ticket.View) + "=" + view
	for name, test := range map[string]struct {
		headers []string
		query   string
		want    string
	}{
		"a token":           {[]string{"X-Svc-Token", control}, "", "control " + control},
		"a ticket":          {[]string{"Cookie", viewCookie}, "", "view " + view},
		"a ticket's link":   {nil, "?t=" + view, "view " + view},
		"the worker key":    {[]string{"X-API-Key", workerKey}, "", "control "},
		"token and ticket":  {[]string{"Cookie", viewCookie}, "?ct=" + control, "control " + control},
		"worker key, too":   {[]string{"X-API-Key", workerKey, "Cookie", viewCookie}, "", "control "},
		"both in the query": {nil, "?t=" + view + "&ct=" + control, "control " + control},
	} {
		headers := append(test.headers, "Sec-Fetch-Site", "same-origin")
		if got := do(t, "GET", h.urlOf(launch, "/stream")+test.query, headers...); got.body != "GET "+launch+" "+test.want {
			t.Errorf("%s: %s", name, got.body)
		}
	}
}

func TestAuthorizer_AllKindsAreCovered(t *testing.T) {
	if got := slices.Sorted(maps.Keys(open.byPath())); !slices.Equal(got, slices.Sorted(maps.Keys(kinds))) {
		t.Errorf("%v", got)
	}
}
