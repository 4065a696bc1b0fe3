package app

import (
	"context"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/platform/mail"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
)

// lifecycle uses the whole service as a user would, and records the secrets that occur.
type lifecycle struct {
	t       *testing.T
	env     *testEnv
	client  *http.Client
	mailbox mailbox
	secrets map[string]string
	token   string // of the session
	key     string

	hashed []string // names of the secrets whose SHA-256 is stored at the end
}

// mailbox is a mail.Transport that keeps all mail.
type mailbox struct {
	mu    sync.Mutex
	mails []mail.Message
}

// Deliver implements mail.Transport.
func (m *mailbox) Deliver(_ context.Context, message mail.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mails = append(m.mails, message)
	return nil
}

// startLifecycle performs every action that involves a secret. Afterwards the outbox
// contains two mails.
func startLifecycle(t *testing.T, h *testEnv) *lifecycle {
	t.Helper()
	l := &lifecycle{t: t, env: h, client: contracttest.New(t, h.document, nil), secrets: map[string]string{}}
	h.parts.outbox.Transport, h.parts.outbox.RetryPolicy.Every = &l.mailbox, 10*time.Millisecond
	l.account()
	orgID := l.organization()
	l.workers()
	l.subscription()
	l.end(orgID)
	return l
}

// account signs up, signs in and changes the password.
func (l *lifecycle) account() {
	const email = "ada@example.com"
	first := l.password("first")
	l.session("of signing up", l.do("POST", "/v1/auth/sign-up", `{"email": "`+email+`", "password": "`+first+`", "name": "Ada"}`))
	l.deliver()
	l.do("POST", "/v1/auth/verify-email", `{"token": "`+l.mailed("used verification token")+`"}`)
	l.do("POST", "/v1/auth/password/forgot", `{"email": "`+email+`"}`)
	l.deliver()
	second := l.password("second")
	l.do("POST", "/v1/auth/password/reset", `{"token": "`+l.mailed("used reset token")+`", "password": "`+second+`"}`)
	l.refused("POST", "/v1/auth/sign-in", `{"email": "`+email+`", "password": "`+l.password("wrong")+`"}`)
	l.session("of signing in", l.do("POST", "/v1/auth/sign-in", `{"email": "`+email+`", "password": "`+second+`"}`))
	l.do("POST", "/v1/auth/password/change", `{"currentPassword": "`+second+`", "newPassword": "`+l.password("third")+`"}`)
	l.hashed = append(l.hashed, "session token of signing in")
}

// organization creates an organization with keys, a profile and an accepted invitation.
func (l *lifecycle) organization() (orgID string) {
	orgID = l.do("POST", "/v1/organizations", `{"name": "Analytical Engines"}`, "Idempotency-Key", "one").text("id")
	l.do("POST", "/v1/billing/checkout", `{"plan": "team"}`, "Idempotency-Key", "two")
	keys := "/v1/organizations/" + orgID + "/api-keys"
	created := l.do("POST", keys, `{"name": "fleet"}`, "Idempotency-Key", "fifteen")
	l.secret("first organization key", created.text("key"))
	rotated := l.do("POST", keys+"/"+created.object("apiKey").text("id")+"/rotate", `{}`, "Idempotency-Key", "sixteen")
	l.key = l.secret("second organization key", rotated.text("key"))
	l.secret("access token", l.do("POST", "/v1/auth/tokens", `{"name": "deployment", "scopes": ["profiles:read"]}`).text("token"))
	l.hashed = append(l.hashed, "first organization key", "second organization key", "access token")

	l.do("POST", "/v1/organizations/"+orgID+"/members/invite", `{"email": "charles@example.com", "role": "member"}`, "Idempotency-Key", "three")
	l.deliver()
	invitation := l.mailed("used invitation token")
	l.hashed = append(l.hashed, "used invitation token")
	ada := l.token
	l.session("of the guest", l.do("POST", "/v1/auth/sign-up", `{"email": "charles@example.com", "password": "`+l.password("guest's")+`", "name": "Charles"}`))
	l.deliver()
	l.do("POST", "/v1/auth/verify-email", `{"token": "`+l.mailed("guest's verification token")+`"}`)
	l.do("POST", "/v1/invitations/accept", `{"token": "`+invitation+`"}`, "Idempotency-Key", "four")
	l.token = ada
	return orgID
}

// workers creates profiles with proxy passwords and client certificates, and reads them as a worker.
func (l *lifecycle) workers() {
	proxy := func(name string) string {
		return `{"server": "http://proxy.example.com:3128", "username": "robot", "password": "` + l.password(name) + `"}`
	}
	client := func(name string) string {
		issued := newClientCertificate(l.t)
		l.secret("key of the "+name+" client certificate", strings.Split(issued.key, "\n")[1])
		return `"clientCertificates": [` + issued.json() + `]`
	}
	body := `{"name": "Checkout", "browserVersion": 156, "proxy": ` + proxy("first proxy") + `, ` + client("first") + `}`
	created := l.do("POST", "/v1/profiles", body, "Idempotency-Key", "five")
	l.do("POST", "/v1/profiles", body, "Idempotency-Key", "five") // a replayed answer
	id := created.text("id")
	l.do("POST", "/v1/profiles/"+id+"/duplicate", `{}`, "Idempotency-Key", "six")
	l.do("PATCH", "/v1/profiles/"+id, `{"proxy": `+proxy("second proxy")+`, `+client("second")+`}`)
	boot, session := uuid.Must(uuid.NewV7()).String(), uuid.NewString()
	worker := `"machineId": "worker-1", "bootId": "` + boot + `", "sessionId": "`
	// The stored answer contains the proxy password and the key of the client certificate.
	granted := l.do("POST", "/v1/license/authorize", `{`+worker+session+`", "profileId": "`+id+`"}`, "Idempotency-Key", "seven")
	l.must(strings.Contains(fmt.Sprint(granted.object("profileConfig")["clientCertificates"]), l.secrets["key of the second client certificate"]),
		"the worker does not get the key of the client certificate")
	l.do("POST", "/v1/license/authorize", `{`+worker+uuid.NewString()+`", "spec": {"browserVersion": 156, "proxy": `+proxy("launch's proxy")+`}}`, "Idempotency-Key", "eight")
	l.do("POST", "/v1/profiles/"+id+"/sessions", `{`+worker+session+`", "seq": 1, "launchId": "`+session+`", "browserVersion": 156, "startedAt": "2026-11-21T10:15:00Z"}`, "Idempotency-Key", "nine")
	l.do("GET", "/v1/profiles/"+id+"/config", "")
	l.vault(session)
	wrong := "svc_" + strings.Repeat("a2", 16)
	l.secret("wrong organization key", wrong)
	l.refused("GET", "/v1/license/sessions", "", "X-API-Key", wrong)
}

// vault creates and changes a secret, and uses it for a running session.
func (l *lifecycle) vault(session string) {
	seed := func(name string) string {
		return l.secret(name+" TOTP seed", base32.StdEncoding.EncodeToString(random(20)))
	}
	created := l.do("POST", "/v1/secrets", `{"name": "shop", "origins": ["https://shop.example.com"], "password": "`+l.password("first shop")+
		`", "totpSeed": "`+seed("first")+`"}`, "Idempotency-Key", "seventeen")
	l.do("PATCH", "/v1/secrets/"+created.text("id"), `{"password": "`+l.password("second shop")+`", "totpSeed": "`+seed("second")+`"}`)
	for _, field := range []string{"password", "totp"} {
		used := l.do("POST", "/v1/secrets/shop/use", `{"sessionId": "`+session+`", "field": "`+field+`", "origin": "https://shop.example.com"}`, "Idempotency-Key", "eighteen")
		l.must(field == "totp" || used.text("value") == l.secrets["second shop password"], "the worker does not get the password")
	}
}

// subscription changes the subscription, which is billed manually.
func (l *lifecycle) subscription() {
	l.do("POST", "/v1/billing/add-ons", `{"addOn": "profiles", "quantity": 2}`, "Idempotency-Key", "ten")
	l.do("POST", "/v1/billing/change-plan", `{"plan": "scale"}`, "Idempotency-Key", "eleven")
	l.do("POST", "/v1/billing/cancel", "", "Idempotency-Key", "twelve")
	l.do("POST", "/v1/contact", `{"name": "Ada", "email": "ada@example.com", "message": "How much is it?"}`, "Idempotency-Key", "thirteen")
}

// end requests mails that stay in the outbox.
func (l *lifecycle) end(orgID string) {
	l.do("POST", "/v1/auth/password/forgot", `{"email": "ada@example.com"}`)
	l.do("POST", "/v1/organizations/"+orgID+"/members/invite", `{"email": "grace@example.com", "role": "member"}`, "Idempotency-Key", "fourteen")
}

// secret records a secret.
func (l *lifecycle) secret(what, secret string) string {
	l.t.Helper()
	l.must(len(secret) >= 16, what+" is too short to search for:  "+secret)
	l.secrets[what] = secret
	return secret
}

// passwordPrefix marks passwords for forms.
const passwordPrefix = "password-"

func (l *lifecycle) password(name string) string {
	return l.secret(name+" password", passwordPrefix+hex.EncodeToString(random(10)))
}

func (l *lifecycle) session(what string, answer data) {
	l.t.Helper()
	l.token = l.secret("session token "+what, answer.text("token"))
}

var mailToken = regexp.MustCompile(`#token=([A-Za-z0-9_-]{43})\b`)

// deliver sends the queued mail and records the tokens in it. It returns their number.
func (l *lifecycle) deliver() (tokens int) {
	l.t.Helper()
	start := len(l.mailbox.mails)
	ctx, stop := context.WithCancel(l.t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.env.parts.outbox.Run(ctx) })
	testenv.Eventually(l.t, "all mail is sent", func() bool {
		var waiting int
		err := l.env.all.GetContext(ctx, &waiting, `SELECT count(*) FROM mail_outbox WHERE state = 'queued'`)
		return err == nil && waiting == 0
	})
	stop()
	running.Wait()
	for _, m := range l.mailbox.mails[start:] {
		if found := mailToken.FindStringSubmatch(m.Text); found != nil {
			l.secret("token mailed to "+m.To+" to "+m.Subject, found[1])
			tokens++
		}
	}
	return tokens
}

// mailed returns the token of the last mail that contains one, and records it.
func (l *lifecycle) mailed(what string) string {
	l.t.Helper()
	for _, m := range slices.Backward(l.mailbox.mails) {
		if found := mailToken.FindStringSubmatch(m.Text); found != nil {
			return l.secret(what, found[1])
		}
	}
	l.t.Fatal("no mail contains a token")
	return ""
}

// mailedTo returns the token of the last mail to the address with this subject prefix.
func (l *lifecycle) mailedTo(address, subject string) string {
	l.t.Helper()
	for _, m := range slices.Backward(l.mailbox.mails) {
		if found := mailToken.FindStringSubmatch(m.Text); found != nil && m.To == address && strings.HasPrefix(m.Subject, subject) {
			return found[1]
		}
	}
	l.t.Fatalf("no mail to %s contains a token", address)
	return ""
}

func (l *lifecycle) must(ok bool, message string) {
	l.t.Helper()
	if !ok {
		l.t.Fatal(message)
	}
}

// data is the payload of an answer.
type data map[string]any

func (d data) text(name string) string { s, _ := d[name].(string); return s }
func (d data) object(name string) data { m, _ := d[name].(map[string]any); return m }

// do sends a request as the signed-in user or as a worker, depending on the path.
func (l *lifecycle) do(method, path, body string, headers ...string) data {
	l.t.Helper()
	status, answer := l.ask(method, path, body, headers)
	l.must(status < http.StatusBadRequest, method+" "+path+": "+answer)
	var envelope struct{ Data data }
	if err := json.Unmarshal([]byte(answer), &envelope); err != nil {
		l.t.Fatal(err)
	}
	return envelope.Data
}

func (l *lifecycle) refused(method, path, body string, headers ...string) {
	l.t.Helper()
	status, answer := l.ask(method, path, body, headers)
	l.must(status == http.StatusUnauthorized, method+" "+path+" was not refused: "+answer)
}

var workerPath = regexp.MustCompile(`^/v1/(license/|profiles/[^/]+/(config|sessions)|secrets/[^/]+/use$)`)

func (l *lifecycle) ask(method, path, body string, headers []string) (status int, answer string) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.env.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if body == "" {
		r.Body = http.NoBody
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	switch {
	case workerPath.MatchString(path):
		r.Header.Set("X-API-Key", l.key)
	case l.token != "":
		r.Header.Set("Authorization", "Bearer "+l.token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := l.client.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
