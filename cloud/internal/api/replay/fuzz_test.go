package replay

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/platform/idempotency"
)

// FuzzIdentify: different requests have different fingerprints, different callers
// never share a key, and the body remains readable.
func FuzzIdentify(f *testing.F) {
	f.Add("POST", "/v1/profiles", "", []byte(`{"name":"a"}`), "k", "POST", "/v1/profiles", "", []byte(`{"name":"a"}`), "k", uint8(0))
	f.Add("POST", "/v1/a", "b", []byte("c"), "k", "POST", "/v1/ab", "", []byte("c"), "k", uint8(1))
	f.Add("POST", "/v1/a", "", []byte("bc"), "k", "POST", "/v1/a", "bc", []byte(""), "k", uint8(2))
	f.Add("POST", "/v1/a%2Fb", "", []byte(""), "k", "POST", "/v1/a/b", "", []byte(""), "k", uint8(3))
	f.Add("PUT", "/", "", []byte(""), "k\x00", "POST", "/", "", []byte(""), "k", uint8(4))
	f.Fuzz(func(t *testing.T, method, path, query string, body []byte, key, method2, path2, query2 string, body2 []byte, key2 string, who uint8) {
		first, ok := identified(t, method, path, query, body, key, 0)
		second, ok2 := identified(t, method2, path2, query2, body2, key2, who%5)
		if !ok || !ok2 {
			return
		}
		u, _ := url.ParseRequestURI(path)
		u2, _ := url.ParseRequestURI(path2)
		same := method == method2 && u.EscapedPath() == u2.EscapedPath() && query == query2 && bytes.Equal(body, body2)
		if (first.Fingerprint == second.Fingerprint) != same {
			t.Errorf("%q %q %q %q and %q %q %q %q: one request is %v", method, path, query, body, method2, path2, query2, body2, same)
		}
		if (first.Scope == second.Scope) != (who%5 == 0) || bytes.ContainsRune([]byte(first.Scope+second.Scope), 0) || first.Key != key {
			t.Errorf("scopes %q and %q, key %q of %q", first.Scope, second.Scope, first.Key, key)
		}
	})
}

// identified returns a request as one of five callers sends it.
func identified(t *testing.T, method, path, query string, body []byte, key string, who uint8) (idempotency.Request, bool) {
	t.Helper()
	target, err := url.ParseRequestURI(path)
	if err != nil {
		return idempotency.Request{}, false
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.Method, r.URL = method, target
	r.URL.RawQuery = query
	id := uuid.MustParse("0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f")
	caller := []auth.Caller{{UserID: id}, {UserID: id, OrgID: id}, {KeyID: id}, {}, {ServiceAccount: &auth.ServiceAccount{ID: id}, OrgID: id}}[who]
	c := echo.New().NewContext(r.WithContext(auth.WithCaller(r.Context(), caller)), httptest.NewRecorder())
	got, err := identify(c, key)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := io.ReadAll(c.Request().Body); err != nil || !bytes.Equal(again, body) {
		t.Errorf("the body has become %q: %v", again, err)
	}
	return got, true
}
