package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// NewToken returns 256 random bits as base64url, for a link in a mail. What is
// stored of it is its Hash.
func NewToken() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails: the program ends first
	return base64.RawURLEncoding.EncodeToString(random)
}

// Hash is the SHA-256 of a token. A token is found by it, so no secrets are
// compared.
func Hash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
