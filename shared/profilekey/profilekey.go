// Package profilekey derives from the key of an organization's profile data what both
// programs must agree on.
package profilekey

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Derive returns a key for one purpose.
func Derive(key []byte, purpose string) ([]byte, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, "svc profile data: "+purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("derive a key of the profile data: %w", err)
	}
	return derived, nil
}

// Directory returns the name of the organization's directory in an object store. It cannot
// be guessed without the key.
func Directory(key []byte) (string, error) {
	derived, err := Derive(key, "directory")
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(derived[:16]), nil
}
