package certs_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/certs/certtest"
)

// TestMain is the program that decrypts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == certs.DecryptCommand {
		os.Exit(certs.DecryptMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func TestClientInput_Decode(t *testing.T) {
	authority := certtest.NewAuthority(t, "Clients")
	expires := time.Now().Add(time.Hour)
	robot := authority.Issue(t, "robot", expires)
	cert := certtest.PEM(robot.Leaf)
	key, otherKey := certtest.Key(t, robot), certtest.Key(t, authority.Issue(t, "other", expires))
	encrypted := certtest.EncryptedKey(t, robot, "secret")
	plain, _ := pem.Decode([]byte(key))
	old, err := x509.EncryptPEMBlock(rand.Reader, "PRIVATE KEY", plain.Bytes, []byte("secret"), x509.PEMCipherAES256) //nolint:staticcheck // clients have such files
	if err != nil {
		t.Fatal(err)
	}
	file := func(encoder *pkcs12.Encoder) string {
		raw, err := encoder.Encode(robot.PrivateKey, robot.Leaf, []*x509.Certificate{authority.Certificate}, "secret")
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	const origin = "https://host.example"
	for _, tc := range []struct {
		name           string
		input          certs.ClientInput
		field, problem string
		chain          int
	}{
		{"PEM", certs.ClientInput{Origin: origin, Cert: cert, Key: key}, "", "", 1},
		{"PEM with the chain", certs.ClientInput{Origin: origin + ":8443", Cert: cert + authority.PEM(), Key: key}, "", "", 2},
		{"encrypted PKCS #8", certs.ClientInput{Origin: origin, Cert: cert, Key: encrypted, Passphrase: "secret"}, "", "", 1},
		{"encrypted with scrypt", certs.ClientInput{Origin: origin, Cert: cert, Key: certtest.ScryptKey(t, robot, "secret"), Passphrase: "secret"}, "", "", 1},
		{"encrypted PEM", certs.ClientInput{Origin: origin, Cert: cert, Key: string(pem.EncodeToMemory(old)), Passphrase: "secret"}, "", "", 1},
		{"PKCS #12", certs.ClientInput{Origin: origin, PFX: file(pkcs12.Modern), Passphrase: "secret"}, "", "", 2},
		{"old PKCS #12", certs.ClientInput{Origin: origin, PFX: file(pkcs12.LegacyRC2), Passphrase: "secret"}, "", "", 2},
		{"no origin", certs.ClientInput{Cert: cert, Key: key}, "origin", "must be https://host", 0},
		{"http", certs.ClientInput{Origin: "http://host.example", Cert: cert, Key: key}, "origin", "must be https://host", 0},
		{"path", certs.ClientInput{Origin: origin + "/", Cert: cert, Key: key}, "origin", "must be https://host", 0},
		{"nothing", certs.ClientInput{Origin: origin}, "cert", "is required", 0},
		{"no key", certs.ClientInput{Origin: origin, Cert: cert}, "key", "is required", 0},
		{"both", certs.ClientInput{Origin: origin, Cert: cert, Key: key, PFX: "AAAA"}, "pfx", "together", 0},
		{"no certificate", certs.ClientInput{Origin: origin, Cert: key, Key: key}, "cert", "must be a certificate", 0},
		{"no private key", certs.ClientInput{Origin: origin, Cert: cert, Key: cert}, "key", "must be a private key", 0},
		{"key of another", certs.ClientInput{Origin: origin, Cert: cert, Key: otherKey}, "key", "is not the key of the certificate", 0},
		{"wrong passphrase", certs.ClientInput{Origin: origin, Cert: cert, Key: encrypted, Passphrase: "wrong"}, "passphrase", "does not decrypt", 0},
		{"wrong passphrase of a file", certs.ClientInput{Origin: origin, PFX: file(pkcs12.Modern), Passphrase: "wrong"}, "passphrase", "does not decrypt", 0},
		{"no base64", certs.ClientInput{Origin: origin, PFX: "?"}, "pfx", "must be base64", 0},
		{"no file", certs.ClientInput{Origin: origin, PFX: "AAAA"}, "pfx", "must be a PKCS #12 file", 0},
		{"huge", certs.ClientInput{Origin: origin, Cert: cert, Key: certtest.HugeKey(t, robot, "secret"), Passphrase: "secret"}, "passphrase", "too much computation", 0},
		{"endless", certs.ClientInput{Origin: origin, Cert: cert, Key: certtest.EndlessKey(t, robot, "secret"), Passphrase: "secret"}, "passphrase", "too much computation", 0},
	} {
		client, problems := tc.input.Decode(t.Context())
		if tc.problem != "" {
			if len(problems) != 1 || problems[0].Field != tc.field || !strings.Contains(problems[0].Message, tc.problem) {
				t.Errorf("%s: got %v, want %s %q", tc.name, problems, tc.field, tc.problem)
			}
			continue
		}
		parsed, err := client.TLS()
		if len(problems) > 0 || err != nil || len(parsed.Certificate) != tc.chain || client.Origin != tc.input.Origin {
			t.Errorf("%s: got %d certificates for %q, %v, %v", tc.name, len(parsed.Certificate), client.Origin, problems, err)
		}
		if subject, until := client.Public(); subject != "CN=robot" || !until.Equal(robot.Leaf.NotAfter) {
			t.Errorf("%s: got %s until %v", tc.name, subject, until)
		}
	}
}

func TestDecodeUpdate_KeepsStored(t *testing.T) {
	robot := certtest.NewAuthority(t, "Clients").Issue(t, "robot", time.Now().Add(time.Hour))
	stored := []certs.Client{{Origin: "https://a.example", Cert: certtest.PEM(robot.Leaf), Key: certtest.Key(t, robot)}}
	for _, tc := range []struct {
		name  string
		sent  []certs.ClientInput
		field string
	}{
		{"the same origin in another form", []certs.ClientInput{{Origin: "https://A.example:443"}}, ""},
		{"nothing", nil, ""},
		{"an unknown origin", []certs.ClientInput{{Origin: "https://a.example"}, {Origin: "https://b.example"}}, "[1].cert"},
		{"the origin twice", []certs.ClientInput{{Origin: "https://a.example"}, {Origin: "https://a.example:443"}}, "[1].origin"},
		{"a passphrase only", []certs.ClientInput{{Origin: "https://a.example", Passphrase: "secret"}}, "[0].cert"},
	} {
		clients, problems := certs.DecodeUpdate(t.Context(), tc.sent)
		if len(problems) == 0 {
			clients, problems = certs.Complete(clients, stored)
		}
		if tc.field != "" {
			if len(problems) != 1 || problems[0].Field != tc.field {
				t.Errorf("%s: got %v, want a problem of %s", tc.name, problems, tc.field)
			}
			continue
		}
		if len(problems) > 0 || len(clients) != len(tc.sent) || len(clients) > 0 && (clients[0].Key != stored[0].Key || clients[0].Origin != tc.sent[0].Origin) {
			t.Errorf("%s: got %d certificates, %v", tc.name, len(clients), problems)
		}
	}
}

func TestClient_PublicWithoutControlCharacters(t *testing.T) {
	robot := certtest.NewAuthority(t, "Clients").Issue(t, "ro\x00bot"+strings.Repeat("x", 2000), time.Now())
	subject, _ := certs.Client{Cert: certtest.PEM(robot.Leaf), Key: certtest.Key(t, robot)}.Public()
	if !strings.HasPrefix(subject, "CN=ro\uFFFDbotx") || len([]rune(subject)) != 1024 {
		t.Errorf("got %q", subject)
	}
}

func TestClient_Address(t *testing.T) {
	for origin, want := range map[string]string{
		"https://Host.Example": "host.example:443", "https://host.example:8443": "host.example:8443", "https://[::1]:1": "[::1]:1",
		"https://[0:0:0::1]": "[::1]:443", "https://host.example:0443": "host.example:443", "https://xn--bcher-kva.example": "xn--bcher-kva.example:443",
		"https://bücher.example": "", "https://*.example": "", "https://host..example": "", "https://[fe80::1%25lo]": "",
		"https://host.example?": "", "https://user@host.example": "", "https://host.example:0": "", "host.example": "",
	} {
		if got := (certs.Client{Origin: origin}).Address(); got != want {
			t.Errorf("%s: got %q, want %q", origin, got, want)
		}
	}
}
