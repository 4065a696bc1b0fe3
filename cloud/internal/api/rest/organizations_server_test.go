package rest_test

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/gen/cloudapi"
)

// organizations is the service as in production, with a mailer and an audit log that
// tests can read. Users are set later, because they depend on it.
func (a *accounts) organizations(plans *plan.Service, public *url.URL) *org.Service {
	return &org.Service{
		DB: a.db, System: a.db, Clock: a.clock, Provisioner: freePlan{plans, a.clock}, Ender: &a.journal, Limits: plans,
		Mail: &a.outbox, Audit: &a.journal, PublicURL: public,
	}
}

// auditRecorder keeps the recorded actions and the ended organizations.
type auditRecorder struct {
	mu      sync.Mutex
	actions []string
	ended   []uuid.UUID
}

func (j *auditRecorder) Record(_ context.Context, _ *sqlx.Tx, _ uuid.UUID, action, _ string, _ map[string]any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.actions = append(j.actions, action)
	return nil
}

func (j *auditRecorder) EndOrganization(_ context.Context, _ *sqlx.Tx, orgID uuid.UUID) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = append(j.ended, orgID)
	return nil
}

// outbox keeps the mailed tokens by address.
type outbox struct {
	mu     sync.Mutex
	tokens map[string]string
}

var tokenPattern = regexp.MustCompile(`#token=([A-Za-z0-9_-]+)\n`)

func (o *outbox) Send(_ context.Context, _ *sqlx.Tx, recipient, _, text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tokens == nil {
		o.tokens = map[string]string{}
	}
	o.tokens[recipient] = tokenPattern.FindStringSubmatch(text)[1]
	return nil
}

func (o *outbox) token(t *testing.T, email string) string {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tokens[email] == "" {
		t.Fatalf("no mail to %s", email)
	}
	return o.tokens[email]
}

// person is a signed-in user.
type person struct {
	id uuid.UUID
	c  credential
}

// person signs up a user with a verified address.
func (a *accounts) person(name string) person {
	a.t.Helper()
	session := a.signUp(name + "@example.com")
	a.db.MustExec(`UPDATE users SET email_verified_at = now(), name = $2 WHERE id = $1`, session.User.Id, name)
	return person{session.User.Id, bearer(session.Token)}
}

// team is an organization with one user for each role, and a user who is not a member.
type team struct {
	id                              uuid.UUID
	path                            string
	owner, admin, member, otherUser person
}

func (a *accounts) team() team {
	a.t.Helper()
	tm := team{owner: a.person("owner"), admin: a.person("admin"), member: a.person("member"), otherUser: a.person("nonmember")}
	tm.id = a.createOrg(tm.owner.c, "Engines").Id
	tm.path = "/v1/organizations/" + tm.id.String()
	a.join(tm.id, tm.admin.id, "admin")
	a.join(tm.id, tm.member.id, "member")
	for _, p := range []person{tm.admin, tm.member} {
		a.do("POST", tm.path+"/activate", p.c, nil).want(a.t, 200, "")
	}
	a.limitMembers(tm.id, 10)
	a.journal.actions = nil
	return tm
}

func (a *accounts) limitMembers(orgID uuid.UUID, limit int) {
	a.t.Helper()
	a.db.MustExec(`UPDATE subscriptions SET base_member_limit = $2 WHERE organization_id = $1`, orgID, limit)
}

// invite invites the address as the owner and returns the invitation and its
// token.
func (a *accounts) invite(tm team, email, role string) (cloudapi.Invitation, string) {
	a.t.Helper()
	created := decode[cloudapi.Invitation](a.t,
		a.do("POST", tm.path+"/members/invite", tm.owner.c, map[string]any{"email": email, "role": role}), 201)
	return created, a.outbox.token(a.t, email)
}

func (a *accounts) wantRecorded(want ...string) {
	a.t.Helper()
	if !slices.Equal(a.journal.actions, want) {
		a.t.Errorf("recorded %v, want %v", a.journal.actions, want)
	}
	a.journal.actions = nil
}
