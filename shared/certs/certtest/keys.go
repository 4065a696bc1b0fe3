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

var pbkdf2 = pkcs8.PBKDF2Opts{SaltSize: 16, IterationCount: 2048, HMACHash: crypto.SHA256}

// EncryptedKey returns the key of a certificate as encrypted text.
func EncryptedKey(t *testing.T, certificate tls.Certificate, passphrase string) string {
	t.Helper()
	return encryptedKey(t, certificate, passphrase, pbkdf2)
}

// ScryptKey is EncryptedKey with a derivation that needs as much memory as that of OpenSSL.
func ScryptKey(t *testing.T, certificate tls.Certificate, passphrase string) string {
	t.Helper()
	return encryptedKey(t, certificate, passphrase, pkcs8.ScryptOpts{SaltSize: 16, CostParameter: 1 << 14, BlockSize: 8, ParallelizationParameter: 1})
}

// EndlessKey is EncryptedKey with a derivation in more steps than anyone waits for.
func EndlessKey(t *testing.T, certificate tls.Certificate, passphrase string) string {
	t.Helper()
	hmacSHA256 := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}, Parameters: asn1.NullRawValue}
	return encryptedKey(t, certificate, passphrase, claimedKDF{pbkdf2, pbkdf2Parameters{Steps: math.MaxInt32, PRF: hmacSHA256}})
}

// HugeKey is EncryptedKey with a derivation that needs 4 GiB of memory.
func HugeKey(t *testing.T, certificate tls.Certificate, passphrase string) string {
	t.Helper()
	return encryptedKey(t, certificate, passphrase, claimedKDF{pkcs8.ScryptOpts{SaltSize: 16}, scryptParameters{Cost: 1 << 22, BlockSize: 8, Parallelization: 1}})
}

func encryptedKey(t *testing.T, certificate tls.Certificate, passphrase string, kdf pkcs8.KDFOpts) string {
	t.Helper()
	raw, err := pkcs8.MarshalPrivateKey(certificate.PrivateKey, []byte(passphrase), &pkcs8.Opts{Cipher: pkcs8.AES256CBC, KDFOpts: kdf})
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: raw}))
}

// claimedKDF claims that a key was derived with the parameters.
type claimedKDF struct {
	pkcs8.KDFOpts
	parameters pkcs8.KDFParameters
}

// DeriveKey implements pkcs8.KDFOpts.
func (c claimedKDF) DeriveKey(_, _ []byte, size int) ([]byte, pkcs8.KDFParameters, error) {
	return make([]byte, size), c.parameters, nil
}

type pbkdf2Parameters struct {
	Salt  []byte
	Steps int
	PRF   pkix.AlgorithmIdentifier
}

// DeriveKey implements pkcs8.KDFParameters.
func (pbkdf2Parameters) DeriveKey([]byte, int) ([]byte, error) { return nil, nil }

type scryptParameters struct {
	Salt                             []byte
	Cost, BlockSize, Parallelization int
}

// DeriveKey implements pkcs8.KDFParameters.
func (scryptParameters) DeriveKey([]byte, int) ([]byte, error) { return nil, nil }
