package certtest

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math"
	"testing"

	"github.com/youmark/pkcs8"
)

// Key returns the key of a certificate as text.
func Key(t *testing.T, certificate tls.Certificate) string {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// EncryptedKey returns the key of a certificate as encrypted text.
func EncryptedKey(t *testing.T, certificate tls.Certificate, passphrase string) string {
	t.Helper()
	return encryptedKey(t, certificate, passphrase, standardKDF)
}

// EndlessKey is EncryptedKey with a derivation in more steps than anyone waits for.
func EndlessKey(t *testing.T, certificate tls.Certificate, passphrase string) string {
	t.Helper()
	return encryptedKey(t, certificate, passphrase, endlessKDF{standardKDF})
}

func encryptedKey(t *testing.T, certificate tls.Certificate, passphrase string, kdf pkcs8.KDFOpts) string {
	t.Helper()
	raw, err := pkcs8.MarshalPrivateKey(certificate.PrivateKey, []byte(passphrase), &pkcs8.Opts{Cipher: pkcs8.AES256CBC, KDFOpts: kdf})
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: raw}))
}

var standardKDF = pkcs8.PBKDF2Opts{SaltSize: 16, IterationCount: 2048, HMACHash: crypto.SHA256}

// endlessKDF claims that a key was derived in more steps than anyone waits for.
type endlessKDF struct{ pkcs8.PBKDF2Opts }

type endlessParameters struct {
	Salt  []byte
	Steps int
	PRF   pkix.AlgorithmIdentifier
}

// DeriveKey implements pkcs8.KDFOpts.
func (endlessKDF) DeriveKey(_, salt []byte, size int) ([]byte, pkcs8.KDFParameters, error) {
	hmacSHA256 := asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}
	return make([]byte, size), endlessParameters{salt, math.MaxInt32, pkix.AlgorithmIdentifier{Algorithm: hmacSHA256, Parameters: asn1.NullRawValue}}, nil
}

// DeriveKey implements pkcs8.KDFParameters.
func (endlessParameters) DeriveKey([]byte, int) ([]byte, error) { return nil, nil }
