package certs_test

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/certs/certtest"
)

func TestParseAuthorities(t *testing.T) {
	first, second := certtest.NewAuthority(t, "First"), certtest.NewAuthority(t, "Second")
	leaf := first.Issue(t, "host.example", time.Now().Add(time.Hour))
	raw, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	damaged := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("damaged")}))
	for _, tc := range []struct {
		name, text, problem string
		count               int
	}{
		{"one", first.PEM(), "", 1},
		{"several with a comment", "# of the company\n" + first.PEM() + second.PEM(), "", 2},
		{"nothing", "", "must contain a certificate in PEM format", 0},
		{"a text", "CERTIFICATE", "must contain a certificate in PEM format", 0},
		{"a private key", first.PEM() + key, "must not contain a private key", 0},
		{"a certificate of a server", first.PEM() + certtest.PEM(leaf.Leaf), "certificate 2 (CN=host.example) is not of a certificate authority", 0},
		{"a damaged certificate", damaged, "certificate 1 is invalid", 0},
	} {
		found, err := certs.ParseAuthorities([]byte(tc.text))
		if len(found) != tc.count || (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: got %d certificates, %v; want %d, %q", tc.name, len(found), err, tc.count, tc.problem)
		}
	}
}
