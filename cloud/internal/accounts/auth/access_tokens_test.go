package auth_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// journal is an audit log.
type journal struct{ actions []string }

func (j *journal) Record(ctx context.Context, _ *sqlx.Tx, _ uuid.UUID, action, _ string, details map[string]any) error {
	text := action
	for _, name := range []string{"name", "reason"} {
		if value, ok := details[name].(string); ok {
			text += " " + value
		}
	}
	if auth.CallerFrom(ctx).UserID != uuid.Nil {
		text += " by the user"
	}
	j.actions = append(j.actions, text)
	return nil
}

// tokenOwner returns the caller of a new session of a member of a new organization, and
// the audit log.
func (f fixture) tokenOwner(t *testing.T) (auth.Caller, *journal) {
	t.Helper()
	log := &journal{}
	f.System, f.Audit = f.db, log
	session := f.signUp(t)
	caller := f.caller(t, session)
	caller.OrgID = f.organization(t, session.User.ID)
	f.db.MustExec(`INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, 'owner', now())`, caller.OrgID, caller.UserID)
	return caller, log
}

// token creates an access token and returns it.
func (f fixture) token(t *testing.T, caller auth.Caller, n auth.NewAccessToken) (auth.AccessToken, string) {
	t.Helper()
	n.Scopes = []string{"profiles:read", "keys:write"}
	created, text, err := f.CreateAccessToken(auth.WithCaller(t.Context(), caller), caller, n)
	if err != nil {
		t.Fatal(err)
	}
	return created, text
}

func TestAccessToken_Authenticates(t *testing.T) {
	f := newFixture(t)
	owner, log := f.tokenOwner(t)
	created, text := f.token(t, owner, auth.NewAccessToken{Name: "deployment"})
	if !strings.HasPrefix(text, "svct_") || len(text) != 48 || !strings.HasSuffix(text, created.LastFour) || !created.ExpiresAt.Equal(f.clock.Now().Add(90*24*time.Hour)) {
		t.Errorf("token %s: %+v", text, created)
	}
	got, err := f.AuthenticateToken(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(auth.Caller{UserID: owner.UserID, ActiveOrgID: owner.OrgID, Token: &created}, got); diff != "" {
		t.Errorf("caller (-want +got):\n%s", diff)
	}
	for name, wrong := range map[string]string{
		"no token": "", "another token": "svct_" + strings.Repeat("a", 43), "without the prefix": text[5:], "upper case": strings.ToUpper(text), "longer": text + "a",
	} {
		if _, err := f.AuthenticateToken(t.Context(), wrong); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	_, err = f.Authenticate(t.Context(), text)
	wantKind(t, err, fault.Unauthenticated)
	var clear int
	if err := f.db.Get(&clear, `SELECT count(*) FROM access_tokens t WHERE t::text LIKE '%' || $1 || '%'`, text[5:]); err != nil || clear != 0 {
		t.Errorf("%d rows contain the token, error %v", clear, err)
	}
	if diff := cmp.Diff([]string{"accessToken.created deployment by the user"}, log.actions); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
}

func TestAccessToken_ExpiresAtLimit(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	year := 365 * 24 * time.Hour
	for lifetime, field := range map[time.Duration]string{-time.Hour: "expiresAt", 0: "expiresAt", time.Hour: "", year: "", year + time.Second: "expiresAt"} {
		expires := f.clock.Now().Add(lifetime)
		_, _, err := f.CreateAccessToken(t.Context(), owner, auth.NewAccessToken{Name: "x", Scopes: []string{"keys:write"}, ExpiresAt: &expires})
		if got := fault.From(err); field == "" && err != nil || field != "" && (err == nil || got.Kind != fault.Validation || got.Details[0].Field != field) {
			t.Errorf("lifetime %v: error %v", lifetime, err)
		}
	}
	_, text := f.token(t, owner, auth.NewAccessToken{Name: "hour", ExpiresAt: new(f.clock.Now().Add(time.Hour))})
	f.clock.Advance(time.Hour - time.Second)
	if _, err := f.AuthenticateToken(t.Context(), text); err != nil {
		t.Errorf("a second before the expiry: %v", err)
	}
	f.clock.Advance(time.Second)
	_, err := f.AuthenticateToken(t.Context(), text)
	wantKind(t, err, fault.Unauthenticated)
}

func TestAccessToken_RecordsLastUseOncePerMinute(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	_, text := f.token(t, owner, auth.NewAccessToken{Name: "x"})
	began := f.clock.Now()
	for _, step := range []struct{ after, want time.Duration }{{0, 0}, {59 * time.Second, 0}, {time.Second, time.Minute}, {30 * time.Second, time.Minute}, {time.Hour, time.Hour + 90*time.Second}} {
		f.clock.Advance(step.after)
		if _, err := f.AuthenticateToken(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		listed, err := f.ListAccessTokens(t.Context(), owner, page.Request{Page: 1, Limit: 10, SortBy: "lastUsedAt"})
		if err != nil || len(listed.Items) != 1 || listed.Items[0].LastUsedAt == nil {
			t.Fatalf("listed %+v, error %v", listed.Items, err)
		}
		if got := listed.Items[0].LastUsedAt.Sub(began); got != step.want {
			t.Errorf("after %v: last used at %v, want %v", f.clock.Now().Sub(began), got, step.want)
		}
	}
}

// The actions that end the sessions of a user also revoke the tokens, and a session that
// has ended meanwhile can't create one.
func TestAccessToken_RevokedWithSessions(t *testing.T) {
	const changed = "purple monkey dishwasher"
	for name, test := range map[string]struct {
		act    func(f fixture, owner auth.Caller) error
		reason string
	}{
		"sign out everywhere": {func(f fixture, owner auth.Caller) error {
			return f.SignOutEverywhere(auth.WithCaller(t.Context(), owner), owner.UserID)
		}, "signedOutEverywhere"},
		"a password reset": {func(f fixture, _ auth.Caller) error {
			return f.ResetPassword(t.Context(), home, f.forgot(t), changed)
		}, "passwordChanged"},
		"a new password": {func(f fixture, owner auth.Caller) error {
			return f.ChangePassword(t.Context(), home, owner, ada.Password, changed)
		}, "passwordChanged"},
		"disabled": {func(f fixture, owner auth.Caller) error {
			return auth.Operator{Accounts: f.Service, DB: f.db, Audit: &journal{}}.Disable(t.Context(), owner.UserID)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			owner, log := f.tokenOwner(t)
			_, first := f.token(t, owner, auth.NewAccessToken{Name: "first"})
			_, second := f.token(t, owner, auth.NewAccessToken{Name: "second"})
			if err := test.act(f, owner); err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{first, second} {
				_, err := f.AuthenticateToken(t.Context(), text)
				wantKind(t, err, fault.Unauthenticated)
			}
			if test.reason != "" && strings.Count(strings.Join(log.actions, "\n"), test.reason+" by the user") != 2 {
				t.Errorf("audit log %q", log.actions)
			}
			if name == "a new password" { // the session continues
				f.token(t, owner, auth.NewAccessToken{Name: "third"})
				return
			}
			_, _, err := f.CreateAccessToken(t.Context(), owner, auth.NewAccessToken{Name: "late", Scopes: []string{"keys:write"}})
			wantKind(t, err, fault.Unauthenticated)
		})
	}
}

// A stolen session must not leave a token behind.
func TestCreateAccessToken_WaitsForResetAndFails(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	var creation error
	f.duringReset(t, func() {
		_, _, creation = f.CreateAccessToken(t.Context(), owner, auth.NewAccessToken{Name: "late", Scopes: []string{"keys:write"}})
	})
	wantKind(t, creation, fault.Unauthenticated)
	var tokens int
	if err := f.db.Get(&tokens, `SELECT count(*) FROM access_tokens`); err != nil || tokens != 0 {
		t.Errorf("got %d tokens, %v", tokens, err)
	}
}

func TestAccessToken_EndsWithMembership(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	_, text := f.token(t, owner, auth.NewAccessToken{Name: "x"})
	f.db.MustExec(`UPDATE memberships SET role = 'member'`)
	if _, err := f.AuthenticateToken(t.Context(), text); err != nil {
		t.Errorf("after a change of the role: %v", err)
	}
	f.db.MustExec(`DELETE FROM memberships`)
	_, err := f.AuthenticateToken(t.Context(), text)
	wantKind(t, err, fault.Unauthenticated)
	_, _, err = f.CreateAccessToken(t.Context(), owner, auth.NewAccessToken{Name: "late", Scopes: []string{"keys:write"}})
	wantKind(t, err, fault.Forbidden)
	f.db.MustExec(`INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, 'owner', now())`, owner.OrgID, owner.UserID)
	_, err = f.AuthenticateToken(t.Context(), text)
	wantKind(t, err, fault.Unauthenticated)
}

func TestCreateAccessToken_RefusesAtLimit(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	created, _ := f.token(t, owner, auth.NewAccessToken{Name: "first"})
	for range 49 {
		f.token(t, owner, auth.NewAccessToken{Name: "x"})
	}
	n := auth.NewAccessToken{Name: "x", Scopes: []string{"keys:write"}}
	_, _, err := f.CreateAccessToken(t.Context(), owner, n)
	want := map[string]any{"current": 50, "limit": 50}
	if got := fault.From(err); err == nil || got.Kind != fault.Forbidden || !cmp.Equal(got.Details[0].Constraint, want) {
		t.Fatalf("error %v", err)
	}
	if err := f.RevokeAccessToken(t.Context(), owner, created.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.CreateAccessToken(t.Context(), owner, n); err != nil {
		t.Errorf("after a revocation: %v", err)
	}
	beside := owner
	beside.OrgID = f.organization(t, owner.UserID)
	f.db.MustExec(`INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, 'owner', now())`, beside.OrgID, beside.UserID)
	f.token(t, beside, auth.NewAccessToken{Name: "another organization"})
}
