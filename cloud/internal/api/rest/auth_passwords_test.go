package rest_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
)

func TestVerifyEmail(t *testing.T) {
	s := newSignIn(t)
	session := s.signUp("ada@example.com")
	if session.User.EmailVerified {
		t.Error("a new address is verified")
	}
	first := s.post.token(t, "verify-email")
	s.do("POST", "/v1/auth/verify-email/resend", bearer(session.Token), nil).want(t, 200, "")
	second := s.post.token(t, "verify-email")
	s.do("POST", "/v1/auth/verify-email", nil, map[string]any{"token": second}).want(t, 200, "")
	got := decode[cloudapi.AuthSession](t, s.do("GET", "/v1/auth/session", bearer(session.Token), nil), 200)
	if !got.User.EmailVerified {
		t.Error("the address is not verified")
	}
	for _, used := range []string{first, second} {
		r := s.do("POST", "/v1/auth/verify-email", nil, map[string]any{"token": used})
		r.want(t, 400, "VALIDATION_ERROR")
		if diff := cmp.Diff([]string{"token CUSTOM"}, r.fields); diff != "" || strings.Contains(r.body, used) {
			t.Errorf("a used token: %s", r.body)
		}
	}
	s.do("POST", "/v1/auth/verify-email/resend", bearer(session.Token), nil).want(t, 409, "RESOURCE_CONFLICT")
	s.do("POST", "/v1/auth/verify-email/resend", nil, nil).want(t, 401, "AUTHENTICATION_ERROR")
	long := strings.Repeat("x", 257)
	if r := s.wrong("POST", "/v1/auth/verify-email", nil, map[string]any{"token": long}); r.status != 400 || strings.Contains(r.body, long) {
		t.Errorf("a token too long: %s", r.body)
	}
	s.wantUnlogged(session.Token, first, second, password)
}

func TestResetPassword(t *testing.T) {
	s := newSignIn(t)
	session := s.signUp("ada@example.com")
	known := s.do("POST", "/v1/auth/password/forgot", nil, map[string]any{"email": "Ada@example.com"})
	unknown := s.do("POST", "/v1/auth/password/forgot", nil, map[string]any{"email": "eve@example.com"})
	known.want(t, 200, "")
	unknown.want(t, 200, "")
	for _, r := range []reply{known, unknown} {
		for _, varies := range []string{"Date", "X-Request-Id"} {
			r.header.Del(varies)
		}
	}
	if diff := cmp.Diff(known.header, unknown.header); diff != "" || known.body != unknown.body {
		t.Errorf("known %s, unknown %s, headers (-known +unknown):\n%s", known.body, unknown.body, diff)
	}
	const replacement = "purple monkey dishwasher"
	token := s.tokenFor("ada@example.com")
	s.wrong("POST", "/v1/auth/password/reset", nil, map[string]any{"token": token, "password": "short"}).want(t, 400, "VALIDATION_ERROR")
	s.do("POST", "/v1/auth/password/reset", nil, map[string]any{"token": token, "password": replacement}).want(t, 200, "")
	s.do("POST", "/v1/auth/password/reset", nil, map[string]any{"token": token, "password": replacement}).want(t, 400, "VALIDATION_ERROR")
	s.do("GET", "/v1/auth/session", bearer(session.Token), nil).want(t, 401, "AUTHENTICATION_ERROR")
	body := map[string]any{"email": "ada@example.com", "password": password}
	s.do("POST", "/v1/auth/sign-in", nil, body).want(t, 401, "AUTHENTICATION_ERROR")
	body["password"] = replacement
	answer := decode[cloudapi.SignIn](t, s.do("POST", "/v1/auth/sign-in", nil, body), 200)
	if !answer.User.EmailVerified {
		t.Error("the address is not verified, though the mail arrived")
	}
	s.wantUnlogged(session.Token, answer.Token, token, password, replacement)
}

// tokenFor returns the token of the last reset mail to the address.
func (s *signInAPI) tokenFor(email string) string {
	s.t.Helper()
	s.post.mu.Lock()
	var kept []string
	for _, text := range s.post.texts {
		if strings.HasPrefix(text, "To: "+email+"\n") {
			kept = append(kept, text)
		}
	}
	s.post.mu.Unlock()
	mine := &mailbox{texts: kept}
	return mine.token(s.t, "reset-password")
}

func TestChangePassword(t *testing.T) {
	s := newSignIn(t)
	other := s.signUp("ada@example.com")
	mine := decode[cloudapi.SignIn](t, s.do("POST", "/v1/auth/sign-in", nil, map[string]any{"email": "ada@example.com", "password": password}), 200)
	const replacement = "purple monkey dishwasher"
	change := func(current string) reply {
		return s.do("POST", "/v1/auth/password/change", bearer(mine.Token), map[string]any{"currentPassword": current, "newPassword": replacement})
	}
	r := change("not the password")
	r.want(t, 400, "VALIDATION_ERROR")
	if diff := cmp.Diff([]string{"currentPassword CUSTOM"}, r.fields); diff != "" || strings.Contains(r.body, "not the password") {
		t.Errorf("a wrong password: %s", r.body)
	}
	change(password).want(t, 200, "")
	s.do("GET", "/v1/auth/session", bearer(mine.Token), nil).want(t, 200, "")
	s.do("GET", "/v1/auth/session", bearer(other.Token), nil).want(t, 401, "AUTHENTICATION_ERROR")
	foreign := cookie(mine.Token).with("Sec-Fetch-Site", "cross-site")
	s.do("POST", "/v1/auth/password/change", foreign, map[string]any{"currentPassword": replacement, "newPassword": password}).
		want(t, 403, "AUTHORIZATION_ERROR")
	s.wantUnlogged(mine.Token, password, replacement, "not the password")
}

func TestSignIn_RateLimitRevealsNothing(t *testing.T) {
	s := newSignIn(t)
	s.signUp("ada@example.com")
	attempt := func(email, password string) reply {
		return s.do("POST", "/v1/auth/sign-in", nil, map[string]any{"email": email, "password": password})
	}
	var refusals []string
	for _, email := range []string{"ada@example.com", "eve@example.com"} {
		for range 5 {
			attempt(email, "not the password").want(t, 401, "AUTHENTICATION_ERROR")
		}
		for _, guess := range []string{"not the password", password} {
			r := attempt(email, guess)
			r.want(t, 429, "RATE_LIMIT_EXCEEDED")
			if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || seconds != 30 {
				t.Errorf("%s: Retry-After %q, want 30", email, r.header.Get("Retry-After"))
			}
			refusals = append(refusals, r.body)
		}
	}
	for _, body := range refusals {
		if body != refusals[0] {
			t.Errorf("refusals differ: %s and %s", refusals[0], body)
		}
	}
	s.clock.Advance(30 * time.Second)
	attempt("ada@example.com", password).want(t, 200, "")
}

func TestAuthSessions_ListAndEnd(t *testing.T) {
	s := newSignIn(t)
	first := s.signUp("ada@example.com")
	s.clock.Advance(time.Minute)
	answer := s.do("POST", "/v1/auth/sign-in", credential{"User-Agent": "curl/8"}, map[string]any{"email": "ada@example.com", "password": password})
	second := decode[cloudapi.SignIn](t, answer, 200)
	list := func(token, query string) cloudapi.DashboardSessionList {
		t.Helper()
		return decode[cloudapi.DashboardSessionList](t, s.do("GET", "/v1/auth/sessions"+query, bearer(token), nil), 200)
	}
	got := list(second.Token, "?sortBy=createdAt&sortOrder=desc&limit=1")
	if len(got.Items) != 1 || !got.Pagination.HasNext {
		t.Fatalf("the first page is %+v", got)
	}
	if p := got.Items[0]; !p.Current || p.IpAddress != "127.0.0.1" || p.UserAgent != "curl/8" || !p.ExpiresAt.Equal(second.ExpiresAt) {
		t.Errorf("this session is %+v", p)
	}
	old := list(second.Token, "?sortOrder=asc").Items[0]
	if old.Current || strings.Contains(first.Token, old.Id.String()) {
		t.Errorf("the other session is %+v", old)
	}
	otherUser := s.signUp("eve@example.com")
	s.do("DELETE", "/v1/auth/sessions/"+old.Id.String(), bearer(otherUser.Token), nil).want(t, 404, "RESOURCE_NOT_FOUND")
	s.do("DELETE", "/v1/auth/sessions/"+old.Id.String(), bearer(second.Token), nil).want(t, 200, "")
	s.do("GET", "/v1/auth/session", bearer(first.Token), nil).want(t, 401, "AUTHENTICATION_ERROR")
	s.do("DELETE", "/v1/auth/sessions/"+old.Id.String(), bearer(second.Token), nil).want(t, 404, "RESOURCE_NOT_FOUND")
	s.wrong("GET", "/v1/auth/sessions?sortBy=ipAddress", bearer(second.Token), nil).want(t, 400, "VALIDATION_ERROR")

	everywhere := s.do("POST", "/v1/auth/sign-out-everywhere", cookie(second.Token), nil)
	everywhere.want(t, 200, "")
	if got := everywhere.header.Get("Set-Cookie"); !strings.HasPrefix(got, "svc_session=; ") {
		t.Errorf("the cookie is taken away by %q", got)
	}
	s.do("GET", "/v1/auth/sessions", bearer(second.Token), nil).want(t, 401, "AUTHENTICATION_ERROR")
	s.do("GET", "/v1/auth/session", bearer(otherUser.Token), nil).want(t, 200, "")
}
