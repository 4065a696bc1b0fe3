package auth_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
)

var robotToken = auth.NewAccessToken{Name: "production", Scopes: []string{"profiles:read"}}

// robot creates a service account of the caller's organization.
func (f fixture) robot(t *testing.T, owner auth.Caller) auth.ServiceAccount {
	t.Helper()
	account, err := f.CreateServiceAccount(t.Context(), owner, "deployment", []string{"profiles:write"})
	if err != nil {
		t.Fatal(err)
	}
	return account
}

// robotToken creates a token of a service account.
func (f fixture) robotToken(t *testing.T, owner auth.Caller, account auth.ServiceAccount) (auth.AccessToken, string) {
	t.Helper()
	created, text, err := f.CreateServiceAccountToken(t.Context(), owner, account.ID, robotToken)
	if err != nil {
		t.Fatal(err)
	}
	return created, text
}

func TestServiceAccount_Authenticates(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	account := f.robot(t, owner)
	created, text := f.robotToken(t, owner, account)
	got, err := f.AuthenticateToken(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Caller{
		ActiveOrgID: owner.OrgID, Token: &created,
		ServiceAccount: &auth.ServiceAccount{ID: account.ID, OrgID: owner.OrgID, Name: "deployment", Scopes: account.Scopes},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("caller (-want +got):\n%s", diff)
	}
}

// The tokens of a service account are those of no person.
func TestServiceAccount_KeepsTokensWithoutSessionOfCreator(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	_, text := f.robotToken(t, owner, f.robot(t, owner))
	if err := f.SignOutEverywhere(t.Context(), owner.UserID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AuthenticateToken(t.Context(), text); err != nil {
		t.Errorf("after the creator signed out everywhere: %v", err)
	}
	_, _, err := f.CreateServiceAccountToken(t.Context(), owner, uuid.New(), robotToken)
	wantKind(t, err, fault.Unauthenticated)
}

func TestServiceAccount_RecordsLastUseOncePerMinute(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	account := f.robot(t, owner)
	_, text := f.robotToken(t, owner, account)
	began := f.clock.Now()
	for _, step := range []struct{ after, want time.Duration }{{0, 0}, {59 * time.Second, 0}, {time.Second, time.Minute}, {30 * time.Second, time.Minute}} {
		f.clock.Advance(step.after)
		if _, err := f.AuthenticateToken(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		got, err := f.ServiceAccount(t.Context(), owner.OrgID, account.ID)
		if err != nil || got.LastUsedAt == nil || got.LastUsedAt.Sub(began) != step.want {
			t.Errorf("after %v: %+v, error %v, want the last use at %v", f.clock.Now().Sub(began), got, err, step.want)
		}
	}
}

// heldJournal is an audit log that holds up a change of a service account before it is
// committed.
type heldJournal struct {
	journal
	holdUp
}

func (j *heldJournal) Record(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, action, target string, details map[string]any) error {
	if action == "serviceAccount.updated" {
		close(j.reached)
		<-j.resume
		return nil
	}
	return j.journal.Record(ctx, tx, orgID, action, target, details)
}

func TestCreateServiceAccountToken_WaitsForDisablingAndFails(t *testing.T) {
	f := newFixture(t)
	owner, _ := f.tokenOwner(t)
	account := f.robot(t, owner)
	held := &heldJournal{holdUp: holdUp{reached: make(chan struct{}), resume: make(chan struct{})}}
	f.Audit = held
	var update, creation error
	var both sync.WaitGroup
	both.Go(func() {
		_, update = f.UpdateServiceAccount(t.Context(), owner.OrgID, account.ID, auth.ServiceAccountChange{Disabled: new(true)})
	})
	<-held.reached
	both.Go(func() { _, _, creation = f.CreateServiceAccountToken(t.Context(), owner, account.ID, robotToken) })
	testenv.Eventually(t, "the creation waits for the change", func() bool {
		var waiting int
		err := f.db.Get(&waiting, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		return err == nil && waiting > 0
	})
	close(held.resume)
	both.Wait()
	if update != nil {
		t.Fatal(update)
	}
	wantKind(t, creation, fault.Conflict)
	var tokens int
	if err := f.db.Get(&tokens, `SELECT count(*) FROM access_tokens`); err != nil || tokens != 0 {
		t.Errorf("got %d tokens, %v", tokens, err)
	}
}
