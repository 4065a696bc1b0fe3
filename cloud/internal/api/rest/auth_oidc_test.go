package rest_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/browser-svc/svc/cloud/internal/accounts/oidc"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/contracttest"
)

// get requests a URL of the service in a browser, without following redirects.
func (s *signInAPI) get(browser *http.Client, address string) reply {
	s.t.Helper()
	return s.visit(browser, address, false)
}

func (s *signInAPI) visit(browser *http.Client, address string, wrong bool) reply {
	s.t.Helper()
	ctx := s.t.Context()
	if wrong {
		ctx = contracttest.AllowInvalidRequest(ctx)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	must(s.t, err)
	res, err := browser.Do(r)
	must(s.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(s.t, err)
	if res.StatusCode == http.StatusFound {
		return reply{status: res.StatusCode, header: res.Header, body: string(body)}
	}
	return read(s.t, res, body)
}

// atProvider starts a sign-in in the browser, signs in at the provider and returns the
// URL of the redirect back.
func (s *signInAPI) atProvider(browser *http.Client, name, returnTo string) *url.URL {
	s.t.Helper()
	started := s.get(browser, s.url+"/v1/auth/oidc/start?"+url.Values{"returnTo": {returnTo}}.Encode())
	started.want(s.t, 302, "")
	return s.provider.SignIn(s.t, browser.Jar, started.header.Get("Location"), name)
}

// cookieOf returns a cookie that an answer sets.
func cookieOf(t *testing.T, r reply, name string) *http.Cookie {
	t.Helper()
	for _, line := range r.header.Values("Set-Cookie") {
		if c, err := http.ParseSetCookie(line); err == nil && c.Name == name {
			return c
		}
	}
	t.Fatalf("no cookie %s in %v", name, r.header)
	return nil
}

func TestSingleSignOn_CreatesSession(t *testing.T) {
	s := newSingleSignOn(t)
	browser := s.browser()
	started := s.get(browser, s.url+"/v1/auth/oidc/start?returnTo=%2Fdocs%3Fa%3Db%23c")
	kept := cookieOf(t, started, "svc_oidc")
	if !kept.HttpOnly || kept.SameSite != http.SameSiteLaxMode || kept.Path != "/v1/auth/oidc" || kept.MaxAge != 600 {
		t.Errorf("the cookie is %s", kept)
	}
	address, err := url.Parse(started.header.Get("Location"))
	must(t, err)
	query := address.Query()
	if query.Get("code_challenge_method") != "S256" || query.Get("nonce") == "" || query.Get("state") == "" || query.Get("response_type") != "code" {
		t.Errorf("the authorization request has the query %v", query)
	}
	back := s.provider.SignIn(t, browser.Jar, address.String(), "ada")
	code := back.Query().Get("code")
	done := s.get(browser, back.String())
	done.want(t, 302, "")
	if got := done.header.Get("Location"); got != "/docs?a=b#c" {
		t.Errorf("redirected to %s", got)
	}
	session := cookieOf(t, done, "svc_session")
	if !session.HttpOnly || session.SameSite != http.SameSiteLaxMode || session.Path != "/" {
		t.Errorf("the session's cookie is %s", session)
	}
	if gone := cookieOf(t, done, "svc_oidc"); gone.MaxAge >= 0 || gone.Value != "" || gone.Path != "/v1/auth/oidc" {
		t.Errorf("the cookie is deleted with %s", gone)
	}
	got := decode[cloudapi.AuthSession](t, s.do("GET", "/v1/auth/session", cookie(session.Value), nil), 200)
	if got.User.Email != "ada@example.com" || !got.User.EmailVerified || got.User.Name != "ada" {
		t.Errorf("signed in as %+v", got.User)
	}
	again := s.browser()
	back = s.atProvider(again, "ada", "/")
	again.Transport = http.DefaultTransport // without validation: some providers send additional parameters
	done = s.get(again, back.String()+"&session_state=x")
	second := decode[cloudapi.AuthSession](t, s.do("GET", "/v1/auth/session", cookie(cookieOf(t, done, "svc_session").Value), nil), 200)
	if second.User.Id != got.User.Id {
		t.Errorf("second sign-in: got user %v, want %v", second.User.Id, got.User.Id)
	}
	var attempt oidc.Attempt
	text, err := base64.RawURLEncoding.DecodeString(kept.Value)
	must(t, err)
	must(t, json.Unmarshal(text, &attempt))
	s.wantUnlogged(session.Value, kept.Value, attempt.State, attempt.Nonce, attempt.Verifier, code, s.provider.Client.Secret)
}

func TestSingleSignOn_RefusesForeignCallback(t *testing.T) {
	s := newSingleSignOn(t)
	mallory, ada := s.browser(), s.browser()
	theirs := s.atProvider(mallory, "mallory", "/").String()

	foreignLink := s.get(ada, theirs) // a link from another user
	foreignLink.want(t, 400, "VALIDATION_ERROR")
	s.get(ada, s.url+"/v1/auth/oidc/start").want(t, 302, "")
	other := s.get(ada, theirs)
	other.want(t, 400, "VALIDATION_ERROR")
	for _, r := range []reply{foreignLink, other} {
		if strings.Contains(strings.Join(r.header.Values("Set-Cookie"), "\n"), "svc_session") {
			t.Error("a refused sign-in set a session cookie")
		}
	}
	back := s.atProvider(ada, "ada", "/")
	kept := ada.Jar.Cookies(back)
	s.get(ada, back.String()).want(t, 302, "")
	s.get(ada, back.String()).want(t, 400, "VALIDATION_ERROR") // the cookie was deleted
	ada.Jar.SetCookies(back, kept)
	s.get(ada, back.String()).want(t, 401, "AUTHENTICATION_ERROR") // the code was used
	for _, value := range []string{"x", "%%%", base64.RawURLEncoding.EncodeToString([]byte("{}")), base64.RawURLEncoding.EncodeToString([]byte("null"))} {
		ada.Jar.SetCookies(back, []*http.Cookie{{Name: "svc_oidc", Value: value, Path: "/v1/auth/oidc"}})
		s.get(ada, s.url+"/v1/auth/oidc/callback?state=&code=x").want(t, 400, "VALIDATION_ERROR")
	}
}

func TestSingleSignOn_LinksOnlyVerifiedAddresses(t *testing.T) {
	s := newSingleSignOn(t)
	local := s.signUp("ada@example.com")
	s.signUp("unverified-eve@example.com")
	signIn := func(name string) reply {
		browser := s.browser()
		return s.get(browser, s.atProvider(browser, name, "/").String())
	}
	signIn("ada").want(t, 409, "RESOURCE_CONFLICT")
	signIn("unverified-eve").want(t, 403, "AUTHORIZATION_ERROR")
	signIn("unverified-other").want(t, 403, "AUTHORIZATION_ERROR")
	var users int
	if err := s.db.Get(&users, `SELECT count(*) FROM users`); err != nil || users != 2 {
		t.Errorf("%d users, %v; want the two that signed up", users, err)
	}
	// The last mail went to eve; ada's is the previous one.
	s.do("POST", "/v1/auth/verify-email/resend", bearer(local.Token), nil).want(t, 200, "")
	s.do("POST", "/v1/auth/verify-email", nil, map[string]any{"token": s.post.token(t, "verify-email")}).want(t, 200, "")
	linked := signIn("ada")
	linked.want(t, 302, "")
	got := decode[cloudapi.AuthSession](t, s.do("GET", "/v1/auth/session", cookie(cookieOf(t, linked, "svc_session").Value), nil), 200)
	if got.User.Id != local.User.Id {
		t.Errorf("signed in as %v, want the existing account %v", got.User.Id, local.User.Id)
	}
}

func TestSingleSignOn_RefusesExternalReturnURL(t *testing.T) {
	s := newSingleSignOn(t)
	for _, foreign := range []string{
		"https://evil.example", "//evil.example", `/\evil.example`, `\\evil.example`, "evil.example", "/\t/evil.example", "/\n/evil", "/%0a", "",
		"javascript:alert(1)", "/a\\b", "/ b",
	} {
		address := s.url + "/v1/auth/oidc/start?" + url.Values{"returnTo": {foreign}}.Encode()
		if foreign == "/%0a" { // decoded once, this is an ordinary path
			s.get(s.browser(), address).want(t, 302, "")
			continue
		}
		s.visit(s.browser(), address, true).want(t, 400, "VALIDATION_ERROR")
	}
	for _, foreign := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "/\t/evil.example", ""} {
		browser := s.browser()
		back := s.atProvider(browser, "ada", "/docs")
		var kept map[string]any
		for _, c := range browser.Jar.Cookies(back) {
			if c.Name == "svc_oidc" {
				text, err := base64.RawURLEncoding.DecodeString(c.Value)
				must(t, err)
				must(t, json.Unmarshal(text, &kept))
			}
		}
		kept["ReturnTo"] = foreign
		text, err := json.Marshal(kept)
		must(t, err)
		browser.Jar.SetCookies(back, []*http.Cookie{{Name: "svc_oidc", Value: base64.RawURLEncoding.EncodeToString(text), Path: "/v1/auth/oidc"}})
		done := s.get(browser, back.String())
		done.want(t, 302, "")
		if got := done.header.Get("Location"); got != "/" {
			t.Errorf("the path %q in the cookie redirects to %q", foreign, got)
		}
	}
}

func TestSingleSignOn_ReportsProviderOutage(t *testing.T) {
	s := newSingleSignOn(t)
	browser := s.browser()
	back := s.atProvider(browser, "ada", "/")
	s.provider.WrapHandler(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	})
	s.get(browser, back.String()).want(t, 503, "EXTERNAL_SERVICE_ERROR")
	s.provider.WrapHandler(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	})
	browser = s.browser()
	s.get(browser, s.url+"/v1/auth/oidc/start").want(t, 302, "") // the provider's configuration is cached
	s.wantUnlogged(back.Query().Get("code"), s.provider.Client.Secret)
}

func TestSingleSignOn_NotFoundWithoutProvider(t *testing.T) {
	s := newSignIn(t)
	s.get(s.browser(), s.url+"/v1/auth/oidc/start").want(t, 404, "RESOURCE_NOT_FOUND")
	s.get(s.browser(), s.url+"/v1/auth/oidc/callback?code=x&state=y").want(t, 404, "RESOURCE_NOT_FOUND")
}
