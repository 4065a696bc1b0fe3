package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/fault"
)

const (
	organizations = "/v1/organizations"
	contactPath   = "/v1/contact"
	engines       = `{"name":"Engines"}`
	hello         = `{"name":"Ada","email":"ada@example.com","message":"Hello"}`
	keyName       = "Idempotency-Key"
)

var (
	ada  = uuid.MustParse("019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a01")
	eve  = uuid.MustParse("019a5f3e-0b6a-7c11-8f55-2f1e9b6f0a02")
	home = uuid.MustParse("019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e02")
	away = uuid.MustParse("019a5f3e-2c11-7d2a-9a3e-6b1b3c9d0e03")
)

func TestReplay_SameRequestGetsSameAnswer(t *testing.T) {
	h := newTestServer(t)
	me := bearer(ada, home)
	first := h.post(t.Context(), organizations, engines, "Authorization", me, keyName, "k 1~")
	second := h.post(t.Context(), organizations, engines, "Authorization", me, keyName, "k 1~")
	if first.status != 201 || first.replayed || second.status != 201 || !second.replayed || h.count() != 1 {
		t.Fatalf("%d %v, then %d %v, after %d calls", first.status, first.replayed, second.status, second.replayed, h.count())
	}
	if first.body != second.body || first.header.Get("Location") == "" {
		t.Errorf("the bodies are\n%s\n%s", first.body, second.body)
	}
	for _, name := range []string{"Location", "Content-Type", "Cache-Control", "X-Content-Type-Options"} {
		if first.header.Get(name) != second.header.Get(name) {
			t.Errorf("%s: %q, then %q", name, first.header.Get(name), second.header.Get(name))
		}
	}
	if first.header.Get("X-Request-Id") == second.header.Get("X-Request-Id") {
		t.Error("the second exchange has the id of the first")
	}
}

func TestReplay_WithoutKeyRunsEveryRequest(t *testing.T) {
	h := newTestServer(t)
	for range 2 {
		if r := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home)); r.status != 201 || r.replayed {
			t.Errorf("%d, replayed %v", r.status, r.replayed)
		}
	}
	var n int
	must(t, h.db.Get(&n, `SELECT count(*) FROM idempotency_keys`))
	if h.count() != 2 || n != 0 {
		t.Errorf("%d calls, and %d keys are stored", h.count(), n)
	}
}

func TestReplay_OtherRequestWithSameKeyIsConflict(t *testing.T) {
	h := newTestServer(t)
	me := bearer(ada, uuid.Nil)
	h.post(t.Context(), organizations, engines, "Authorization", me, keyName, "k")
	for _, other := range [][2]string{
		{organizations, `{"name":"engines"}`},
		{"/v1/invitations/accept", `{"token":"` + strings.Repeat("x", 43) + `"}`},
	} {
		r := h.post(t.Context(), other[0], other[1], "Authorization", me, keyName, "k")
		if r.status != 409 || !strings.Contains(r.body, "RESOURCE_CONFLICT") || r.header.Get("Retry-After") != "" {
			t.Errorf("%v: %d %s", other, r.status, r.body)
		}
	}
	me = bearer(ada, home)
	h.post(t.Context(), "/v1/billing/portal", "", "Authorization", me, keyName, "k")
	r := h.post(t.Context(), "/v1/billing/resume", "", "Authorization", me, keyName, "k")
	if r.status != 409 || !strings.Contains(r.body, "used for another request") {
		t.Errorf("another path: %d %s", r.status, r.body)
	}
	if h.count() != 2 {
		t.Errorf("%d calls", h.count())
	}
}

func TestReplay_KeyIsScopedToCaller(t *testing.T) {
	h := newTestServer(t)
	reclaim := "/v1/license/sessions/reclaim"
	key, otherKey := uuid.NewString(), uuid.NewString()
	for name, test := range map[string]struct {
		path, body string
		first      []string
		other      []string
	}{
		"another user":                           {organizations, engines, []string{"Authorization", bearer(ada, home)}, []string{"Authorization", bearer(eve, home)}},
		"another organization":                   {"/v1/billing/portal", "", []string{"Authorization", bearer(ada, home)}, []string{"Authorization", bearer(ada, away)}},
		"another service account":                {organizations, engines, []string{"Authorization", bearer(ada, home) + " account"}, []string{"Authorization", bearer(eve, home) + " account"}},
		"a user instead of a service account":    {organizations, engines, []string{"Authorization", bearer(ada, home) + " account"}, []string{"Authorization", bearer(ada, home)}},
		"another worker key":                     {reclaim, "", []string{"X-API-Key", key}, []string{"X-API-Key", otherKey}},
		"another client address":                 {contactPath, hello, []string{"X-Forwarded-For", "203.0.113.7"}, []string{"X-Forwarded-For", "203.0.113.8"}},
		"an unauthenticated caller with a token": {contactPath, hello, []string{"X-Forwarded-For", "203.0.113.9"}, []string{"Authorization", bearer(ada, home)}},
	} {
		send := func(headers []string) reply {
			return h.post(t.Context(), test.path, test.body, append([]string{keyName, name}, headers...)...)
		}
		before := h.count()
		mine, again, theirs := send(test.first), send(test.first), send(test.other)
		if !again.replayed || again.body != mine.body || theirs.replayed || theirs.body == mine.body || h.count() != before+2 {
			t.Errorf("%s: mine %s, again %v %s, theirs %v %s", name, mine.body, again.replayed, again.body, theirs.replayed, theirs.body)
		}
	}
}

func TestReplay_ScopeIgnoresUnusedActiveOrganization(t *testing.T) {
	h := newTestServer(t)
	first := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, uuid.Nil), keyName, "k")
	second := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, "k")
	if !second.replayed || second.body != first.body {
		t.Error("creating an organization, which activates it, is not repeatable")
	}
}

func TestReplay_UnauthorizedCallerGetsNoAnswer(t *testing.T) {
	h := newTestServer(t)
	h.post(t.Context(), "/v1/billing/portal", "", "Authorization", bearer(ada, home), keyName, "k")
	if r := h.post(t.Context(), "/v1/billing/portal", "", keyName, "k"); r.status != 401 || r.replayed {
		t.Errorf("without a credential: %d", r.status)
	}
	if r := h.post(t.Context(), "/v1/billing/portal", "", "Authorization", bearer(ada, uuid.Nil), keyName, "k"); r.status != 403 || r.replayed {
		t.Errorf("removed member: %d", r.status)
	}
}

func TestReplay_DoesNotStoreFailures(t *testing.T) {
	h := newTestServer(t)
	for name, test := range map[string]struct {
		err  error
		kept bool
	}{
		"a success":      {nil, true},
		"a conflict":     {fault.New(fault.Conflict, "no"), false},
		"a limit":        {fault.New(fault.Forbidden, "no"), false},
		"a bad request":  {fault.New(fault.Validation, "no"), false},
		"haste":          {&fault.Error{Kind: fault.RateLimited, Message: "no", RetryAfter: time.Minute}, false},
		"lack of a slot": {fault.New(fault.PaymentRequired, "no"), false},
		"our failure":    {errors.New("no"), false},
		"another's":      {fault.New(fault.Unavailable, "no"), false},
	} {
		next := h.count() + 1
		h.do = func(_ context.Context, call int) error {
			if call == next {
				return test.err
			}
			return nil
		}
		want := 201
		if test.err != nil {
			want = fault.From(test.err).Kind.Status()
		}
		first := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, name)
		second := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, name)
		if first.status != want || second.status != 201 || second.replayed != test.kept {
			t.Errorf("%s: %d, then %d, replayed %v; want %d, then 201", name, first.status, second.status, second.replayed, want)
		}
		if test.kept && first.body != second.body {
			t.Errorf("%s: %s, then %s", name, first.body, second.body)
		}
	}
}

func TestReplay_DoesNotStoreLicenseRefusal(t *testing.T) {
	h := newTestServer(t)
	body := `{"machineId":"m","bootId":"` + uuid.NewString() + `","sessionId":"` + uuid.NewString() + `","profileId":"` + uuid.NewString() + `"}`
	for range 2 {
		if r := h.post(t.Context(), "/v1/license/authorize", body, "X-API-Key", uuid.NewString(), keyName, "k"); r.status != 402 || r.replayed {
			t.Errorf("%d, replayed %v", r.status, r.replayed)
		}
	}
}

func TestReplay_DoesNotStoreOrRecreateSecrets(t *testing.T) {
	h := newTestServer(t)
	keys := "/v1/organizations/" + home.String() + "/api-keys"
	for path, body := range map[string]string{keys: `{"name":"fleet"}`, keys + "/" + away.String() + "/rotate": `{"expireOldAfterSeconds":60}`} {
		before := h.count()
		send := func() reply {
			return h.post(t.Context(), path, body, "Authorization", bearer(ada, home), keyName, "k "+path)
		}
		h.do = func(_ context.Context, call int) error {
			if call == before+1 {
				return fault.New(fault.Forbidden, "no")
			}
			return nil
		}
		refused, first, second, third := send(), send(), send(), send()
		if refused.status != 403 || first.status != 201 || first.replayed || h.count() != before+2 {
			t.Fatalf("%s: %d, then %d, after %d calls", path, refused.status, first.status, h.count()-before)
		}
		for _, r := range []reply{second, third} {
			id := first.header.Get("Location")[len(keys)+1:]
			if r.status != 409 || r.replayed || strings.Contains(r.body, keyText) ||
				!strings.Contains(r.body, "created the key "+id) || !strings.Contains(r.body, `"constraint":{"keyId":"`+id+`"}`) {
				t.Errorf("%s again: %d %s", path, r.status, r.body)
			}
		}
	}
	for _, a := range h.stored {
		if text := fmt.Sprintf("%s %v", a.Body, a.Header); strings.Contains(text, keyText) {
			t.Errorf("kept: %s", text)
		}
	}
	if len(h.stored) != 2 {
		t.Errorf("%d answers are stored", len(h.stored))
	}
}

func TestReplay_LogsFailures(t *testing.T) {
	h := newTestServer(t)
	h.do = func(context.Context, int) error { return errors.New("the disk is full") }
	r := h.post(t.Context(), organizations, engines, "Authorization", bearer(ada, home), keyName, "k")
	if r.status != 500 || strings.Contains(r.body, "disk") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if text := h.log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "the disk is full") {
		t.Errorf("logged: %s", text)
	}
}

func TestReplay_IgnoresHeaderOnOtherOperations(t *testing.T) {
	h := newTestServer(t)
	for range 2 {
		r := h.post(t.Context(), "/v1/auth/sign-in", `{"email":"ada@example.com","password":"x"}`, keyName, "k")
		if r.status != 401 || r.replayed {
			t.Errorf("%d, replayed %v", r.status, r.replayed)
		}
	}
	if h.count() != 2 {
		t.Errorf("%d calls", h.count())
	}
}

func TestReplay_ValidatesKeyLength(t *testing.T) {
	h := newTestServer(t)
	for name, test := range map[string]struct {
		key string
		ok  bool
	}{
		"255 characters": {strings.Repeat("~", 255), true}, "256 characters": {strings.Repeat("k", 256), false},
		"one character": {"k", true}, "no ASCII": {"schlüssel", false}, "nothing": {"", false}, "a tab": {"a\tb", false},
	} {
		ctx := t.Context()
		if !test.ok {
			ctx = contracttest.AllowInvalidRequest(ctx)
		}
		r := h.post(ctx, organizations, engines, "Authorization", bearer(ada, home), keyName, test.key)
		if (r.status == 201) != test.ok || !test.ok && (r.status != 400 || !strings.Contains(r.body, keyName)) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

func TestReplay_RefusesLargeBodyBeforeHashing(t *testing.T) {
	h := newTestServer(t)
	body := `{"name":"` + strings.Repeat("x", 2<<20) + `"}`
	r := h.post(contracttest.AllowInvalidRequest(t.Context()), organizations, body, "Authorization", bearer(ada, home), keyName, "k")
	if r.status != 413 {
		t.Errorf("status %d", r.status)
	}
}
