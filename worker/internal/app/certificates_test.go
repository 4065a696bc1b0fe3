package app

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate returns a self-signed certificate in PEM format.
func certificate(t *testing.T, name string, authority bool) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: authority, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func TestConfig_CACertificates(t *testing.T) {
	dir := t.TempDir()
	authority := certificate(t, "first", true)
	for name, content := range map[string][]byte{
		"two.pem": append(bytes.Clone(authority), certificate(t, "second", true)...), "mounted/third.CRT": certificate(t, "third", true),
		"mounted/notes.txt": []byte("no certificate"), "mounted/..data/third.crt": certificate(t, "hidden", true),
		"leaf.pem": certificate(t, "leaf", false), "text.pem": []byte("text"), "empty/notes.txt": nil,
		"damaged.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("damaged")}),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ paths, names, message string }{
		{"", "", ""},
		{"two.pem,mounted", "first second third", ""},
		{"leaf.pem", "", "leaf.pem: certificate 1 (CN=leaf) is not of a certificate authority"},
		{"text.pem", "", "text.pem: must contain a certificate in PEM format"},
		{"empty", "", "empty has no file with one of the endings .pem, .crt, .cer"},
		{"damaged.pem", "", "damaged.pem: certificate 1 is invalid: x509"},
		{"missing.pem", "", "missing.pem: no such file"},
	} {
		var config Config
		for path := range strings.SplitSeq(tc.paths, ",") {
			if path != "" {
				config.CACertificates = append(config.CACertificates, filepath.Join(dir, path))
			}
		}
		found, err := config.caCertificates()
		var names []string
		for _, each := range found {
			names = append(names, each.Subject.CommonName)
		}
		if strings.Join(names, " ") != tc.names || (err == nil) != (tc.message == "") ||
			err != nil && (!strings.HasPrefix(err.Error(), "CA_CERTIFICATES: ") || !strings.Contains(err.Error(), tc.message)) {
			t.Errorf("%s: got %v, %v", tc.paths, names, err)
		}
	}
}

func TestConfig_RootCAsIncludeSystem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, certificate(t, "company", true), 0o600); err != nil {
		t.Fatal(err)
	}
	expected, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := Config{CACertificates: []string{file}}.rootCAs()
	if err != nil {
		t.Fatal(err)
	}
	added, err := Config{CACertificates: []string{file}}.caCertificates()
	if err != nil {
		t.Fatal(err)
	}
	expected.AddCert(added[0])
	if !roots.Equal(expected) {
		t.Error("the pool is not that of the system with the certificate")
	}
	if roots, err := (Config{}).rootCAs(); roots != nil || err != nil {
		t.Errorf("without CA_CERTIFICATES: %v, %v", roots, err)
	}
}
