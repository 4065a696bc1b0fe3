package apikey_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/shared/fault"
)

func TestUpdate_ChangesNameAndExpiry(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "fleet"})
	expires := f.clock.Now().Add(time.Hour)
	for _, test := range []struct {
		change    apikey.Change
		name      string
		expiresAt *time.Time
	}{
		{apikey.Change{Name: new("Frankfurt")}, "Frankfurt", nil},
		{apikey.Change{ExpiresAt: &expires}, "Frankfurt", &expires},
		{apikey.Change{Name: new("Paris")}, "Paris", &expires},
		{apikey.Change{NeverExpires: true}, "Paris", nil},
	} {
		got, err := f.Update(t.Context(), f.orgID, k.ID, test.change)
		if err != nil {
			t.Fatal(err)
		}
		k.Name, k.ExpiresAt = test.name, test.expiresAt
		if diff := cmp.Diff(k, got); diff != "" {
			t.Errorf("changed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]apikey.Key{k}, f.list(t, "name")); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
	}
	if _, err := f.Verify(t.Context(), secret); err != nil {
		t.Error(err)
	}
}

func TestUpdate_ExpiryTakesEffect(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "k"})
	if _, err := f.Update(t.Context(), f.orgID, k.ID, apikey.Change{ExpiresAt: new(f.clock.Now().Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Hour)
	wantRefused(t, f, secret)
	if _, err := f.Update(t.Context(), f.orgID, k.ID, apikey.Change{NeverExpires: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Verify(t.Context(), secret); err != nil {
		t.Errorf("after the expiry was taken away: %v", err)
	}
}

func TestRotate_KeepsOldKey(t *testing.T) {
	f := newFixture(t)
	expires := f.clock.Now().Add(90 * 24 * time.Hour)
	for name, old := range map[string]apikey.NewKey{"for ever": {Name: "fleet"}, "for 90 days": {Name: "fleet", ExpiresAt: &expires}} {
		k, oldSecret := f.create(t, old)
		f.clock.Advance(24 * time.Hour)
		now := f.clock.Now()
		got, secret, err := f.Rotate(t.Context(), f.orgID, f.userID, k.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := apikey.Key{ID: got.ID, Name: "fleet", Prefix: secret[:8], LastFour: secret[32:], CreatedBy: k.CreatedBy, CreatedAt: now}
		if old.ExpiresAt != nil {
			want.ExpiresAt = new(now.Add(k.ExpiresAt.Sub(k.CreatedAt)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: rotated (-want +got):\n%s", name, diff)
		}
		for _, s := range []string{oldSecret, secret} {
			if _, err := f.Verify(t.Context(), s); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestRotate_ExpiresOldKey(t *testing.T) {
	f := newFixture(t)
	soon, late := f.clock.Now().Add(30*time.Minute), f.clock.Now().Add(30*time.Hour)
	for name, test := range map[string]struct {
		expires *time.Time
		after   time.Duration
		want    time.Duration // from now
	}{
		"at once":          {nil, 0, 0},
		"within the hour":  {nil, time.Hour, time.Hour},
		"earlier":          {&late, time.Hour, time.Hour},
		"sooner by itself": {&soon, time.Hour, 29 * time.Minute},
	} {
		f := newFixture(t)
		k, secret := f.create(t, apikey.NewKey{Name: "k", ExpiresAt: test.expires})
		f.clock.Advance(time.Minute - time.Second) // create advanced by a second
		if _, _, err := f.Rotate(t.Context(), f.orgID, f.userID, k.ID, &test.after); err != nil {
			t.Fatal(err)
		}
		if test.want > 0 {
			f.clock.Advance(test.want - time.Microsecond)
			if _, err := f.Verify(t.Context(), secret); err != nil {
				t.Errorf("%s: just before: %v", name, err)
			}
			f.clock.Advance(time.Microsecond)
		}
		wantRefused(t, f, secret)
	}
}

func TestChanges_UnknownKeyIsNotFound(t *testing.T) {
	f := newFixture(t)
	k, _ := f.create(t, apikey.NewKey{Name: "k"})
	revoked, _ := f.create(t, apikey.NewKey{Name: "r"})
	if err := f.Revoke(t.Context(), f.orgID, revoked.ID); err != nil {
		t.Fatal(err)
	}
	foreign := f.organization(t)
	for name, ids := range map[string][2]uuid.UUID{
		"another organization's": {foreign, k.ID}, "unknown": {f.orgID, uuid.New()}, "revoked": {f.orgID, revoked.ID},
	} {
		_, err := f.Update(t.Context(), ids[0], ids[1], apikey.Change{Name: new("N"), NeverExpires: true})
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("update, %s: %v", name, err)
		}
		if _, _, err := f.Rotate(t.Context(), ids[0], f.userID, ids[1], new(time.Duration(0))); !fault.Is(err, fault.NotFound) {
			t.Errorf("rotate, %s: %v", name, err)
		}
	}
	_, err := f.Update(t.Context(), f.orgID, k.ID, apikey.Change{ExpiresAt: new(f.clock.Now())})
	if !fault.Is(err, fault.Validation) || fault.From(err).Details[0].Field != "expiresAt" {
		t.Errorf("an expiry in the past: %v", err)
	}
	if diff := cmp.Diff([]apikey.Key{k}, f.list(t, "name")); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
}

func TestChanges_AreAuditedWithoutSecret(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "fleet"})
	if _, err := f.Update(t.Context(), f.orgID, k.ID, apikey.Change{Name: new("Paris")}); err != nil {
		t.Fatal(err)
	}
	replacement, second, err := f.Rotate(t.Context(), f.orgID, f.userID, k.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Revoke(t.Context(), f.orgID, k.ID); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"apiKey.created " + k.ID.String() + ` {"expiresAt":null,"name":"fleet"}`,
		"apiKey.updated " + k.ID.String() + ` {"expiresAt":null,"name":"Paris"}`,
		"apiKey.rotated " + k.ID.String() + ` {"name":"Paris","replacement":"` + replacement.ID.String() + `"}`,
		"apiKey.revoked " + k.ID.String() + ` {"name":"Paris"}`,
	}
	if diff := cmp.Diff(want, f.audit.entries); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	if all := strings.Join(f.audit.entries, "\n"); strings.Contains(all, secret) || strings.Contains(all, second) {
		t.Error("a key was recorded")
	}
}

func TestKey_OutlivesItsCreator(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "k"})
	f.db.MustExec(`DELETE FROM users WHERE id = $1`, f.userID)
	if _, err := f.Verify(t.Context(), secret); err != nil {
		t.Error(err)
	}
	if got := f.list(t, "name"); len(got) != 1 || got[0].ID != k.ID || got[0].CreatedBy.Valid {
		t.Errorf("listed %+v", got)
	}
}
