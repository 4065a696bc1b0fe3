package access_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/worker/internal/auth/access"
)

func TestNewKey_PrefersAPIKeyThenSvcKeyThenGenerates(t *testing.T) {
	for _, tc := range []struct {
		name, apiKey, svcKey, opens string
	}{
		{"API_KEY wins", "api", "svc", "api"},
		{"API_KEY falls back to SVC_KEY", "", "svc", "svc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, generated := access.NewKey(tc.apiKey, tc.svcKey)
			if generated != "" {
				t.Error("got a generated key although a key is configured")
			}
			if !key.Matches(tc.opens) || key.Matches("other") || key.Matches("") {
				t.Errorf("the key does not match exactly %q", tc.opens)
			}
		})
	}
	t.Run("without either a new key is generated at every start", func(t *testing.T) {
		key, first := access.NewKey("", "")
		_, second := access.NewKey("", "")
		if first == "" || first == second {
			t.Fatalf("generated %q and %q, want two different keys", first, second)
		}
		if !key.Matches(first) || key.Matches(second) || key.Matches("") {
			t.Error("a generated key does not match exactly itself")
		}
	})
}

func TestKey_Authenticate(t *testing.T) {
	key, _ := access.NewKey("right", "")
	r := httptest.NewRequest(http.MethodGet, "/sessions", nil)
	if _, err := key.Authenticate(r); !errors.Is(err, oapi.ErrNoCredential) {
		t.Errorf("no header: %v", err)
	}
	r.Header.Set("X-API-Key", "wrong")
	if _, err := key.Authenticate(r); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("wrong key: %v", err)
	}
	r.Header.Set("X-API-Key", "right")
	if ctx, err := key.Authenticate(r); err != nil || ctx == nil {
		t.Errorf("right key: %v", err)
	}
}
