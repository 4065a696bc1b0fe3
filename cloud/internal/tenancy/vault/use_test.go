package vault

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

func TestUse_ReturnsValues(t *testing.T) {
	f := newFixture(t)
	s := f.create(draft("shop"))
	for field, want := range map[Field]string{Username: "robot", Password: testPassword, TOTP: "287082"} {
		for _, reference := range []string{"shop", s.ID.String()} {
			value, err := f.use(reference, field)
			if err != nil || value.Text != want || value.SecretID != s.ID {
				t.Errorf("%s: got %+v, %v, want %s", field, value, err, want)
			}
			if until := value.ValidUntil; (until != nil) != (field == TOTP) || until != nil && !until.Equal(time.Unix(60, 0)) {
				t.Errorf("%s is valid until %v", field, until)
			}
		}
	}
	f.clock.Advance(time.Second) // the next period
	if value, err := f.use("shop", TOTP); err != nil || value.Text == "287082" || !value.ValidUntil.Equal(time.Unix(90, 0)) {
		t.Errorf("the next code is %+v: %v", value, err)
	}
	if after, err := f.Get(t.Context(), f.org, s.ID); err != nil || after.LastUsedAt == nil || !after.LastUsedAt.Equal(time.Unix(60, 0)) || !after.UpdatedAt.Equal(s.UpdatedAt) {
		t.Errorf("after the use: %+v: %v", after, err)
	}
}

func TestUse_Refusals(t *testing.T) {
	f := newFixture(t)
	d := draft("shop")
	d.TOTPSeed, d.ProfileIDs = nil, &[]uuid.UUID{f.profile}
	s := f.create(d)
	other, otherProfile := f.tenant()
	running := f.session(f.org, f.profile, "running")
	for name, test := range map[string]struct {
		use   Use
		kind  fault.Kind
		field string
	}{
		"an unknown secret":                 {Use{"unknown", running, Password, testOrigin}, fault.NotFound, ""},
		"an unknown id":                     {Use{uuid.NewString(), running, Password, testOrigin}, fault.NotFound, ""},
		"an unknown session":                {Use{"shop", uuid.New(), Password, testOrigin}, fault.Conflict, ""},
		"a reserved session":                {Use{"shop", f.session(f.org, f.profile, "reserved"), Password, testOrigin}, fault.Conflict, ""},
		"an ended session":                  {Use{"shop", f.session(f.org, f.profile, "released"), Password, testOrigin}, fault.Conflict, ""},
		"a session of another organization": {Use{"shop", f.session(other, otherProfile, "running"), Password, testOrigin}, fault.Conflict, ""},
		"another profile":                   {Use{"shop", f.session(f.org, f.newProfile(f.org), "running"), Password, testOrigin}, fault.Forbidden, "sessionId"},
		"another origin":                    {Use{"shop", running, Password, "https://evil.example.com"}, fault.Forbidden, "origin"},
		"an opaque origin":                  {Use{"shop", running, Password, "null"}, fault.Forbidden, "origin"},
		"a missing field":                   {Use{"shop", running, TOTP, testOrigin}, fault.Validation, "field"},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := f.Use(t.Context(), f.org, test.use)
			assertFault(t, err, test.kind, test.field)
			if value != (Value{}) {
				t.Errorf("returned %+v with the error", value)
			}
		})
	}
	if after, err := f.Get(t.Context(), f.org, s.ID); err != nil || after.LastUsedAt != nil {
		t.Errorf("a refused use changed the secret: %+v, %v", after, err)
	}
}

// TestUse_DeletedProfileLeavesSecretUnusable deletes the only profile of a secret.
func TestUse_DeletedProfileLeavesSecretUnusable(t *testing.T) {
	f := newFixture(t)
	d, kept := draft("shop"), f.newProfile(f.org)
	d.ProfileIDs = &[]uuid.UUID{f.profile}
	only := f.create(d)
	d.Name, d.ProfileIDs = "store", &[]uuid.UUID{f.profile, kept}
	both := f.create(d)
	f.exec(`DELETE FROM profiles WHERE id = $1`, f.profile)
	if s, err := f.Get(t.Context(), f.org, only.ID); err != nil || s.ProfileIDs == nil || len(*s.ProfileIDs) != 0 {
		t.Errorf("the secret is %+v: %v", s, err)
	}
	if s, err := f.Get(t.Context(), f.org, both.ID); err != nil || len(*s.ProfileIDs) != 1 || (*s.ProfileIDs)[0] != kept {
		t.Errorf("the secret is %+v: %v", s, err)
	}
	f.profile = kept
	_, err := f.use("shop", Password)
	assertFault(t, err, fault.Forbidden, "sessionId")
	if _, err := f.use("store", Password); err != nil {
		t.Error(err)
	}
}

// TestUse_Concurrent uses secrets while they are changed and profiles are deleted: every
// use returns a whole value, and is recorded.
func TestUse_Concurrent(t *testing.T) {
	f := newFixture(t)
	s := f.create(draft("shop"))
	session := f.session(f.org, f.profile, "running")
	profiles := make([]uuid.UUID, 8)
	for i := range profiles {
		profiles[i] = f.newProfile(f.org)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5 {
				value, err := f.Use(t.Context(), f.org, Use{Secret: "shop", SessionID: session, Field: Password, Origin: testOrigin})
				if err != nil || value.Text != testPassword && value.Text != "another password" {
					t.Errorf("got %+v: %v", value, err)
				}
			}
		})
		wg.Go(func() {
			f.update(s.ID, `{"password": "another password"}`)
			f.exec(`DELETE FROM profiles WHERE id = $1`, profiles[i])
		})
	}
	wg.Wait()
	actions, _ := f.events()
	if want := 1 + 8*5 + 8; len(actions) != want {
		t.Errorf("%d events, want %d", len(actions), want)
	}
}

// TestUpdate_DoesNotKeepDeletedProfile assigns profiles to a secret while they are deleted.
func TestUpdate_DoesNotKeepDeletedProfile(t *testing.T) {
	f := newFixture(t)
	s := f.create(draft("shop"))
	for range 10 {
		profile := f.newProfile(f.org)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := f.Update(t.Context(), f.org, s.ID, []byte(`{"profileIds": ["`+profile.String()+`"]}`))
			if err != nil && !fault.Is(err, fault.NotFound) {
				t.Error(err)
			}
		})
		wg.Go(func() { f.exec(`DELETE FROM profiles WHERE id = $1`, profile) })
		wg.Wait()
		if after, err := f.Get(t.Context(), f.org, s.ID); err != nil || after.ProfileIDs != nil && len(*after.ProfileIDs) > 0 {
			t.Fatalf("the secret has a deleted profile: %+v, %v", after, err)
		}
	}
}
