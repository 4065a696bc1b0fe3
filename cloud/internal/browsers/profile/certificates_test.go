package profile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/certs/certtest"
	"github.com/browser-svc/svc/shared/fault"
)

// robot is a client with a certificate.
type robot struct {
	cert, key, encrypted, endless string
	expires                       time.Time
}

const passphrase = "passphrase of the robot"

func newRobot(t *testing.T) robot {
	t.Helper()
	issued := certtest.NewAuthority(t, "Clients").Issue(t, "robot", noon.Add(time.Hour))
	return robot{certtest.PEM(issued.Leaf), certtest.Key(t, issued), certtest.EncryptedKey(t, issued, passphrase),
		certtest.EndlessKey(t, issued, passphrase), issued.Leaf.NotAfter}
}

func (r robot) input(origin string) certs.ClientInput {
	return certs.ClientInput{Origin: origin, Cert: r.cert, Key: r.key}
}

func (r robot) certificate(origin string) ClientCertificate {
	return ClientCertificate{Origin: origin, Subject: "CN=robot", ExpiresAt: r.expires}
}

func withClients(list ...certs.ClientInput) Draft {
	d := named("With certificates")
	d.ClientCertificates = list
	return d
}

// keys returns the keys of the profile by origin.
func (f *fixture) keys(p Profile) map[string]string {
	f.t.Helper()
	config, err := f.svc.Config(f.t.Context(), f.org, p.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	found := map[string]string{}
	for _, client := range config.ClientKeys {
		if client.Cert == "" {
			f.t.Errorf("%s has no certificate", client.Origin)
		}
		found[client.Origin] = client.Key
	}
	return found
}

func TestClientCertificates_EncryptedAndOnlyInConfig(t *testing.T) {
	f, r := newFixture(t), newRobot(t)
	lines := f.recording("")
	sealed := certs.ClientInput{Origin: "https://b.example:8443", Cert: r.cert, Key: r.encrypted, Passphrase: passphrase}
	created := f.create(withClients(r.input("https://a.example"), sealed))
	if diff := cmp.Diff([]ClientCertificate{r.certificate("https://a.example"), r.certificate("https://b.example:8443")}, created.ClientCertificates); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(created, f.get(created.ID)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	want := map[string]string{"https://a.example": r.key, "https://b.example:8443": r.key}
	if diff := cmp.Diff(want, f.keys(created)); diff != "" {
		t.Error("the worker does not get the keys")
	}
	copied, err := f.svc.Duplicate(t.Context(), f.org, created.ID, f.user, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(created.ClientCertificates, copied.ClientCertificates); diff != "" || !cmp.Equal(want, f.keys(copied)) {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	var rows []string
	if err := f.svc.DB.SelectContext(t.Context(), &rows, `SELECT profiles::text || encode(client_certificate_secret, 'escape') FROM profiles`); err != nil {
		t.Fatal(err)
	}
	for _, text := range append(rows, lines()...) {
		for _, secret := range []string{strings.Split(r.key, "\n")[1], "PRIVATE", passphrase} {
			if strings.Contains(text, secret) {
				t.Errorf("contains %q: %s", secret, text)
			}
		}
	}
	f.exec(`UPDATE profiles SET proxy_secret = client_certificate_secret WHERE id = $1`, created.ID)
	f.exec(`UPDATE profiles SET client_certificate_secret = (SELECT client_certificate_secret FROM profiles WHERE id = $1) WHERE id = $2`, created.ID, copied.ID)
	for _, p := range []Profile{created, copied} {
		if _, err := f.svc.Config(t.Context(), f.org, p.ID); err == nil {
			t.Errorf("%s: a moved ciphertext was decrypted", p.Name)
		}
	}
}

func TestUpdate_ClientCertificates(t *testing.T) {
	f, r, other := newFixture(t), newRobot(t), newRobot(t)
	pair, err := json.Marshal(map[string]string{"origin": "https://b.example", "cert": other.cert, "key": other.key})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		patch string
		want  map[string]string
		field string
	}{
		"what is absent stays": {`{"name":"New"}`, map[string]string{"https://a.example": r.key}, ""},
		"an origin is kept":    {`{"clientCertificates":[{"origin":"https://A.example:443"}]}`, map[string]string{"https://A.example:443": r.key}, ""},
		"one is added": {`{"clientCertificates":[{"origin":"https://a.example"},` + string(pair) + `]}`,
			map[string]string{"https://a.example": r.key, "https://b.example": other.key}, ""},
		"one is replaced": {`{"clientCertificates":[` + strings.Replace(string(pair), "b.example", "a.example", 1) + `]}`,
			map[string]string{"https://a.example": other.key}, ""},
		"another replaces it": {`{"clientCertificates":[` + string(pair) + `]}`, map[string]string{"https://b.example": other.key}, ""},
		"an empty list":       {`{"clientCertificates":[]}`, map[string]string{}, ""},
		"an unknown origin":   {`{"clientCertificates":[{"origin":"https://a.example"},{"origin":"https://c.example"}]}`, nil, "clientCertificates[1].cert"},
	} {
		t.Run(name, func(t *testing.T) {
			p := f.create(withClients(r.input("https://a.example")))
			updated, err := f.svc.Update(t.Context(), f.org, p.ID, nil, json.RawMessage(test.patch))
			if test.field != "" {
				if details := wantFault(t, err, fault.Validation).Details; len(details) != 1 || details[0].Field != test.field || !strings.Contains(details[0].Message, "no certificate is stored") {
					t.Errorf("details %+v", details)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !cmp.Equal(test.want, f.keys(p)) || len(updated.ClientCertificates) != len(test.want) {
				t.Errorf("got %+v", updated.ClientCertificates)
			}
			if diff := cmp.Diff(updated, f.get(p.ID)); diff != "" {
				t.Errorf("read again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClientCertificates_RefusedWithTheirFields(t *testing.T) {
	f, r, other := newFixture(t), newRobot(t), newRobot(t)
	f.svc.Decryptions = make(chan struct{}, 1)
	const origin = "https://a.example"
	for name, test := range map[string]struct {
		list []certs.ClientInput
		want []string
	}{
		"origins":             {[]certs.ClientInput{r.input("http://a.example"), r.input(origin), r.input("https://A.example:443")}, []string{"[0].origin", "[2].origin"}},
		"nothing stored":      {[]certs.ClientInput{{Origin: origin}}, []string{"[0].cert"}},
		"key of another":      {[]certs.ClientInput{{Origin: origin, Cert: r.cert, Key: other.key}}, []string{"[0].key"}},
		"wrong passphrase":    {[]certs.ClientInput{r.input(origin), {Origin: "https://b.example", Cert: r.cert, Key: r.encrypted, Passphrase: "wrong"}}, []string{"[1].passphrase"}},
		"no file":             {[]certs.ClientInput{{Origin: origin, PFX: "AAAA"}}, []string{"[0].pfx"}},
		"too much to compute": {[]certs.ClientInput{{Origin: origin, Cert: r.cert, Key: r.endless, Passphrase: passphrase}}, []string{"[0].passphrase"}},
	} {
		t.Run(name, func(t *testing.T) {
			draft := withClients(test.list...)
			draft.TimezoneID = "Mars/Base"
			want := []string{}
			for _, field := range test.want {
				want = append(want, "clientCertificates"+field)
			}
			_, err := f.svc.Create(t.Context(), f.org, f.user, draft)
			got := []string{}
			for _, detail := range wantFault(t, err, fault.Validation).Details {
				got = append(got, detail.Field)
				if text := fmt.Sprint(detail); strings.Contains(text, "PRIVATE") || detail.Received != nil && detail.Field != "timezoneId" {
					t.Errorf("the detail repeats what was sent: %s", text)
				}
			}
			if diff := cmp.Diff(append(want, "timezoneId"), got); diff != "" || f.rows(f.org) != 0 {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClientCertificates_WaitForDecryption: only lists with encrypted keys wait, and a client
// that leaves ends the wait.
func TestClientCertificates_WaitForDecryption(t *testing.T) {
	f, r := newFixture(t), newRobot(t)
	f.svc.Decryptions = make(chan struct{}, 1)
	f.svc.Decryptions <- struct{}{}
	f.create(withClients(r.input("https://a.example")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	encrypted := certs.ClientInput{Origin: "https://a.example", Cert: r.cert, Key: r.encrypted, Passphrase: passphrase}
	if _, err := f.svc.Create(ctx, f.org, f.user, withClients(encrypted)); err == nil || !strings.Contains(err.Error(), "wait for the decryption of keys") {
		t.Errorf("got %v", err)
	}
	<-f.svc.Decryptions
	f.create(withClients(encrypted))
	if len(f.svc.Decryptions) != 0 {
		t.Error("the place was not released")
	}
}
