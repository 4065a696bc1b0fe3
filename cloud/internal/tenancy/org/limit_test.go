package org_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/shared/fault"
)

// newUser creates a user without organizations.
func (f fixture) newUser(verified bool) uuid.UUID {
	f.t.Helper()
	id := uuid.Must(uuid.NewV7())
	f.db.MustExec(`INSERT INTO users (id, email, name, created_at, email_verified_at)
		VALUES ($1, $2, 'U', now(), CASE WHEN $3 THEN now() END)`, id, id.String()+"@example.com", verified)
	return id
}

// createConcurrently creates n organizations concurrently and returns the refusals.
func (f fixture) createConcurrently(userID uuid.UUID, n int) (refusals []error) {
	f.t.Helper()
	errs := make(chan error, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			_, err := f.Create(f.t.Context(), userID, org.NewOrganization{Name: "Works"})
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			refusals = append(refusals, err)
		}
	}
	return refusals
}

func (f fixture) wantLimit(errs []error, n int, field string, limit int) {
	f.t.Helper()
	if len(errs) != n {
		f.t.Errorf("%d refusals, want %d", len(errs), n)
	}
	for _, err := range errs {
		d := fault.From(err).Details
		if !fault.Is(err, fault.Forbidden) || len(d) != 1 || d[0].Field != field || d[0].Constraint["limit"] != limit || d[0].Constraint["current"] != limit {
			f.t.Errorf("refused with %v, %+v", err, d)
		}
	}
}

func TestCreate_SecondOrganizationRequiresVerifiedAddress(t *testing.T) {
	f := newFixture(t)
	user := f.newUser(false)
	f.wantLimit(f.createConcurrently(user, 8), 7, "email", 1)
	f.db.MustExec(`UPDATE users SET email_verified_at = now() WHERE id = $1`, user)
	f.wantLimit(f.createConcurrently(user, 8), 0, "", 0)
}

func TestCreate_StopsAtFreeOrganizationLimit(t *testing.T) {
	f := newFixture(t)
	f.MaxFree = 3
	user, other := f.newUser(true), f.newUser(true)
	f.createConcurrently(user, 2) // on the team plan, which does not count
	f.db.MustExec(`UPDATE subscriptions SET price_cents = 0 WHERE organization_id = (SELECT id FROM organizations ORDER BY id LIMIT 1)`)
	f.provisioner.free = true
	f.wantLimit(f.createConcurrently(user, 10), 8, "freeOrganizations", 3)
	f.wantLimit(f.createConcurrently(other, 3), 0, "", 0)
	f.db.MustExec(`DELETE FROM organizations WHERE id = (SELECT id FROM organizations WHERE created_by = $1 ORDER BY id DESC LIMIT 1)`, user)
	f.wantLimit(f.createConcurrently(user, 5), 4, "freeOrganizations", 3)
}
