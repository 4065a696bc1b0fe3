package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/certs/certtest"
)

type clientCertificate struct{ cert, key string }

func newClientCertificate(t *testing.T) clientCertificate {
	t.Helper()
	issued := certtest.NewAuthority(t, "Clients").Issue(t, "robot", time.Now().Add(time.Hour))
	return clientCertificate{certtest.PEM(issued.Leaf), certtest.Key(t, issued)}
}

// json returns the certificate for an origin, as clients send it.
func (c clientCertificate) json() string {
	text, _ := json.Marshal(map[string]string{"origin": "https://a.example", "cert": c.cert, "key": c.key}) // texts only
	return string(text)
}

// TestClientCertificates_KeysOnlyForWorkers sends keys in valid and in invalid requests, and
// searches for them in all answers, in the log and in the audit log.
func TestClientCertificates_KeysOnlyForWorkers(t *testing.T) {
	certificate := newClientCertificate(t)
	line := strings.Split(certificate.key, "\n")[1]
	search := newLeakSearch(t, line)
	owner, otherOwner := search.tenant(), search.tenant()
	ask := func(v tenant, method, path, body string, want int) string {
		t.Helper()
		return search.ask(v, "owner", method, path, body, want)
	}
	with := func(list string) string {
		return `{"name": "P", "browserVersion": 156, "clientCertificates": ` + list + `}`
	}
	var created struct{ Data struct{ ID uuid.UUID } }
	text := ask(owner, "POST", "/v1/profiles", with("["+certificate.json()+"]"), http.StatusCreated)
	if err := json.Unmarshal([]byte(text), &created); err != nil || !strings.Contains(text, `"subject":"CN=robot"`) {
		t.Fatalf("%v: %s", err, text)
	}
	profile := "/v1/profiles/" + created.Data.ID.String()
	ask(owner, "GET", profile, "", http.StatusOK)
	ask(owner, "GET", "/v1/profiles", "", http.StatusOK)
	ask(owner, "PATCH", profile, `{"clientCertificates": [{"origin": "https://a.example"}]}`, http.StatusOK)
	ask(owner, "PATCH", profile, `{"clientCertificates": [`+certificate.json()+`]}`, http.StatusOK)
	ask(owner, "POST", profile+"/duplicate", `{}`, http.StatusCreated)
	ask(otherOwner, "GET", profile, "", http.StatusNotFound)
	ask(otherOwner, "PATCH", profile, `{"clientCertificates": [{"origin": "https://a.example"}]}`, http.StatusNotFound)
	if text := ask(otherOwner, "GET", "/v1/profiles", "", http.StatusOK); strings.Contains(text, "CN=robot") {
		t.Errorf("another organization sees the certificate: %s", text)
	}
	item := certificate.json()
	for _, list := range []string{
		`[` + strings.Replace(item, "https:", "http:", 1) + `]`, `[` + item + `,` + item + `]`, `[` + strings.Repeat(item+",", 10) + item + `]`,
		`[` + strings.Replace(item, `"key"`, `"keys"`, 1) + `]`, `[` + strings.Replace(item, `"key":"`, `"key":"damaged`, 1) + `]`, `"` + line + `"`, `{"key": "` + line + `"}`,
		`[{"origin": "https://a.example", "cert": "` + line + `", "key": "` + line + `"}]`, `["` + line + `"]`,
	} {
		if text := ask(owner, "POST", "/v1/profiles", with(list), http.StatusBadRequest); !strings.Contains(text, "clientCertificates") {
			t.Errorf("the answer does not name the field: %s", text)
		}
		ask(owner, "PATCH", profile, `{"clientCertificates": `+list+`}`, http.StatusBadRequest)
	}
	ask(owner, "GET", "/v1/audit-events", "", http.StatusOK)
	search.checkLog()
}
