package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/contracttest"
)

// visitor is a client of the API.
type visitor struct {
	t      *testing.T
	h      *testEnv
	client *http.Client
	token  string
}

// newVisitor returns a client that is not signed in.
func (h *testEnv) newVisitor(t *testing.T) *visitor {
	return &visitor{t: t, h: h, client: contracttest.New(t, h.document, nil)}
}

// reply is an answer of the cloud.
type reply struct {
	status int
	text   string
	Data   map[string]any
	Error  struct {
		Code    string
		Message string
		Details []struct {
			Field      string
			Constraint map[string]any
		}
	}
}

func (p *visitor) ask(method, path string, body map[string]any) reply {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.h.url+path, bytes.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	if body == nil {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-Forwarded-For", randomAddress())
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	response, err := p.client.Do(r)
	if err != nil {
		p.t.Error(err)
		return reply{}
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Error(err)
	}
	answer := reply{status: response.StatusCode, text: string(raw)}
	if err := json.Unmarshal(raw, &answer); err != nil {
		p.t.Error(err)
	}
	return answer
}

// want sends a request and fails the test unless the answer has this status.
func (p *visitor) want(status int, method, path string, body map[string]any) reply {
	p.t.Helper()
	answer := p.ask(method, path, body)
	if answer.status != status {
		p.t.Fatalf("%s %s: %d, want %d: %s", method, path, answer.status, status, answer.text)
	}
	return answer
}

// signUp creates an account, which the visitor then uses.
func (p *visitor) signUp() reply {
	p.t.Helper()
	answer := p.want(201, "POST", "/v1/auth/sign-up", map[string]any{"email": "ada@example.com", "password": password, "name": "Ada"})
	p.token, _ = answer.Data["token"].(string)
	return answer
}

// atOnce sends the same request n times concurrently and counts the answers by status.
// All refusals must name the limit.
func (p *visitor) atOnce(n int, path string, body map[string]any, limit int) map[int]int {
	p.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	counts := map[int]int{}
	for range n {
		all.Go(func() {
			answer := p.ask("POST", path, body)
			mu.Lock()
			defer mu.Unlock()
			counts[answer.status]++
			if answer.status == 201 {
				return
			}
			d := answer.Error.Details
			if answer.Error.Code != "AUTHORIZATION_ERROR" || len(d) != 1 || fmt.Sprint(d[0].Constraint) != fmt.Sprintf("map[current:%d limit:%d]", limit, limit) {
				p.t.Errorf("refused with %s", answer.text)
			}
		})
	}
	all.Wait()
	return counts
}

// TestCreateOrganization_StopsAtLimit: an unverified user can create one organization
// and a verified user three, even with concurrent requests.
func TestCreateOrganization_StopsAtLimit(t *testing.T) {
	h := newTestEnv(t, nil)
	ada := h.newVisitor(t)
	ada.signUp()
	if counts := ada.atOnce(21, "/v1/organizations", map[string]any{"name": "Works"}, 1); counts[201] != 1 || counts[403] != 20 {
		t.Errorf("unverified: %v", counts)
	}
	h.all.MustExec(`UPDATE users SET email_verified_at = now()`)
	if counts := ada.atOnce(21, "/v1/organizations", map[string]any{"name": "Works"}, 3); counts[201] != 2 || counts[403] != 19 {
		t.Errorf("verified: %v", counts)
	}
}

func TestCreateKey_StopsAtLimit(t *testing.T) {
	h := newTestEnv(t, nil)
	ada := h.newVisitor(t)
	ada.signUp()
	keys := "/v1/organizations/" + ada.want(201, "POST", "/v1/organizations", map[string]any{"name": "Works"}).Data["id"].(string) + "/api-keys"
	if counts := ada.atOnce(60, keys, map[string]any{"name": "fleet"}, 50); counts[201] != 50 || counts[403] != 10 {
		t.Errorf("%v", counts)
	}
}

// TestDefaults_AnonymousVisitorGetsNoAccess: the first user can sign up, later users
// need an invitation, and no user gets a paid plan.
func TestDefaults_AnonymousVisitorGetsNoAccess(t *testing.T) {
	h := newTestEnv(t, map[string]string{"SIGN_UP": "", "BILLING_SELF_SERVICE": "", "CONTACT_EMAIL": "sales@example.com"})
	ada := h.newVisitor(t)
	ada.signUp()
	organization := ada.want(201, "POST", "/v1/organizations", map[string]any{"name": "Works"}).Data["id"].(string)
	for _, plan := range []string{"checkout", "change-plan"} {
		refusal := ada.want(403, "POST", "/v1/billing/"+plan, map[string]any{"plan": "enterprise"})
		if refusal.Error.Code != "AUTHORIZATION_ERROR" || !bytes.Contains([]byte(refusal.Error.Message), []byte("sales@example.com")) {
			t.Errorf("%s: %s", plan, refusal.text)
		}
	}
	ada.want(403, "POST", "/v1/billing/add-ons", map[string]any{"addOn": "profiles"})

	if _, err := h.parts.billing.Assign(t.Context(), uuid.MustParse(organization), "team"); err != nil { // the free plan has one member
		t.Fatal(err)
	}
	eve := h.newVisitor(t)
	eve.want(403, "POST", "/v1/auth/sign-up", map[string]any{"email": "eve@example.com", "password": password, "name": "Eve"})
	eve.want(403, "POST", "/v1/auth/sign-up", map[string]any{"email": "ada@example.com", "password": password, "name": "Eve"}) // the same link as for a new account
	l := &lifecycle{t: t, env: h, secrets: map[string]string{}}
	h.parts.outbox.Transport = &l.mailbox
	ada.want(201, "POST", "/v1/organizations/"+organization+"/members/invite", map[string]any{"email": "charles@example.com", "role": "member"})
	l.deliver()
	token := l.mailedTo("charles@example.com", "Invitation")
	for _, email := range []string{"eve@example.com", "ada@example.com"} {
		refusal := eve.want(400, "POST", "/v1/auth/sign-up", map[string]any{"email": "ada@example.com", "password": password, "name": "Eve", "invitationToken": token})
		if d := refusal.Error.Details; len(d) != 1 || d[0].Field != "invitationToken" {
			t.Errorf("%s: %s", email, refusal.text)
		}
	}
	charles := h.newVisitor(t)
	joined := charles.want(201, "POST", "/v1/auth/sign-up",
		map[string]any{"email": "Charles@example.com", "password": password, "name": "Charles", "invitationToken": token})
	charles.token = joined.Data["token"].(string)
	charles.want(200, "POST", "/v1/invitations/accept", map[string]any{"token": token})
}
