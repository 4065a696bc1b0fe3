package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"net/http"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/oapi"
)

// Key is the worker key.
type Key struct {
	hash [sha256.Size]byte
}

// NewKey returns the worker key: apiKey, else svcKey, else a generated key. Only a
// generated key is also returned in clear text, to be printed once; it changes with
// every start.
func NewKey(apiKey, svcKey string) (key Key, generated string) {
	secret := apiKey
	if secret == "" {
		secret = svcKey
	}
	if secret == "" {
		var random [20]byte
		_, _ = rand.Read(random[:]) // never fails
		generated = "wrk_" + strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))
		secret = generated
	}
	return Key{hash: sha256.Sum256([]byte(secret))}, generated
}

// Matches reports whether the secret is this key, in constant time.
func (k Key) Matches(secret string) bool {
	hash := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(hash[:], k.hash[:]) == 1
}

// Authenticate checks the X-API-Key header of a REST request.
func (k Key) Authenticate(r *http.Request) (context.Context, error) {
	secret := r.Header.Get("X-API-Key")
	if secret == "" {
		return nil, oapi.ErrNoCredential
	}
	if !k.Matches(secret) {
		return nil, fault.New(fault.Unauthenticated, "The worker key is invalid.")
	}
	return r.Context(), nil
}
