package vault

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

func TestCreate_ReturnsNoValues(t *testing.T) {
	f := newFixture(t)
	d := draft("shop")
	d.Origins = []string{"https://Accounts.Example.com:443"}
	d.ProfileIDs = &[]uuid.UUID{f.profile}
	s := f.create(d)
	if s.Name != "shop" || *s.Username != "robot" || !s.HasPassword || !s.HasTOTP || s.LastUsedAt != nil ||
		!slices.Equal(s.Origins, []string{testOrigin}) || !slices.Equal(*s.ProfileIDs, []uuid.UUID{f.profile}) {
		t.Errorf("created %+v", s)
	}
	list, err := f.List(t.Context(), f.org, page.Request{Page: 1, Limit: 10, SortBy: "name"})
	if err != nil || list.Total != 1 || len(list.Items) != 1 || list.Items[0].ID != s.ID {
		t.Errorf("listed %+v: %v", list, err)
	}
	var stored string
	if err := f.system.GetContext(t.Context(), &stored, `SELECT encode(password_secret || totp_secret, 'escape') || s::text FROM secrets s`); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stored, testPassword) || strings.Contains(stored, testSeed) {
		t.Errorf("the row contains a value: %s", stored)
	}
}

func TestCreate_Refusals(t *testing.T) {
	f := newFixture(t)
	_, elsewhere := f.tenant()
	ephemeral := f.newProfile(f.org)
	f.exec(`UPDATE profiles SET ephemeral = true WHERE id = $1`, ephemeral)
	f.create(draft("taken"))
	for name, test := range map[string]struct {
		change func(*Draft)
		kind   fault.Kind
		field  string
	}{
		"a taken name":                      {func(d *Draft) { d.Name = "taken" }, fault.Conflict, "name"},
		"a UUID as name":                    {func(d *Draft) { d.Name = uuid.NewString() }, fault.Validation, "name"},
		"a path":                            {func(d *Draft) { d.Origins = append(d.Origins, "https://example.com/login") }, fault.Validation, "origins[1]"},
		"plain http":                        {func(d *Draft) { d.Origins = []string{"http://example.com"} }, fault.Validation, "origins[0]"},
		"an invalid seed":                   {func(d *Draft) { d.TOTPSeed = new("0123456789012345") }, fault.Validation, "totpSeed"},
		"a profile of another organization": {func(d *Draft) { d.ProfileIDs = &[]uuid.UUID{f.profile, elsewhere} }, fault.NotFound, "profileIds[1]"},
		"an ephemeral profile":              {func(d *Draft) { d.ProfileIDs = &[]uuid.UUID{ephemeral} }, fault.NotFound, "profileIds[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			d := draft("new")
			test.change(&d)
			_, err := f.Create(t.Context(), f.org, d)
			assertFault(t, err, test.kind, test.field)
			if message, _ := json.Marshal(fault.From(err).PublicDetails()); strings.Contains(string(message), "0123456789012345") {
				t.Errorf("the error contains the seed: %s", message)
			}
		})
	}
}

func TestCreate_RefusesAtLimit(t *testing.T) {
	f := newFixture(t)
	f.exec(`INSERT INTO secrets (id, organization_id, name, origins, created_at, updated_at)
		SELECT gen_random_uuid(), $1, 'secret-' || n, '{}', now(), now() FROM generate_series(2, $2) n`, f.org, maxSecrets)
	refused := make(chan error, 8)
	for i := range cap(refused) {
		go func() {
			_, err := f.Create(t.Context(), f.org, draft("last-"+string(rune('a'+i))))
			refused <- err
		}()
	}
	created := 0
	for range cap(refused) {
		if err := <-refused; err == nil {
			created++
		} else {
			assertFault(t, err, fault.Forbidden, "secrets")
		}
	}
	if created != 1 {
		t.Errorf("%d secrets were created, want 1", created)
	}
}

func TestUpdate_ChangesOnlySentFields(t *testing.T) {
	f := newFixture(t)
	s := f.create(draft("shop"))
	changed := f.update(s.ID, `{"name": "store", "origins": null, "password": "another password"}`)
	if changed.Name != "store" || *changed.Username != "robot" || !slices.Equal(changed.Origins, s.Origins) || changed.ProfileIDs != nil || !changed.HasTOTP {
		t.Errorf("changed to %+v", changed)
	}
	if value, err := f.use("store", Password); err != nil || value.Text != "another password" {
		t.Errorf("the password is %q: %v", value.Text, err)
	}
	changed = f.update(s.ID, `{"username": null, "password": null, "totpSeed": null, "profileIds": []}`)
	if changed.Username != nil || changed.HasPassword || changed.HasTOTP || changed.ProfileIDs == nil || len(*changed.ProfileIDs) != 0 {
		t.Errorf("changed to %+v", changed)
	}
	if changed = f.update(s.ID, `{"profileIds": null}`); changed.ProfileIDs != nil {
		t.Errorf("changed to %+v", changed)
	}
	f.create(draft("other"))
	for patch, want := range map[string]struct {
		kind  fault.Kind
		field string
	}{
		`{"name": "other"}`:                                  {fault.Conflict, "name"},
		`{"totpSeed": "not base32 at all!"}`:                 {fault.Validation, "totpSeed"},
		`{"origins": ["https://*.com"]}`:                     {fault.Validation, "origins[0]"},
		`{"profileIds": ["` + uuid.NewString() + `"]}`:       {fault.NotFound, "profileIds[0]"},
		`{"name": "` + strings.ToLower(s.ID.String()) + `"}`: {fault.Validation, "name"},
	} {
		_, err := f.Update(t.Context(), f.org, s.ID, json.RawMessage(patch))
		assertFault(t, err, want.kind, want.field)
	}
}

func TestSecrets_AreOfOneOrganization(t *testing.T) {
	f := newFixture(t)
	s := f.create(draft("shop"))
	other, profile := f.tenant()
	session := f.session(other, profile, "running")
	_, err := f.Get(t.Context(), other, s.ID)
	assertFault(t, err, fault.NotFound, "")
	_, err = f.Update(t.Context(), other, s.ID, json.RawMessage(`{"name": "x"}`))
	assertFault(t, err, fault.NotFound, "")
	assertFault(t, f.Delete(t.Context(), other, s.ID), fault.NotFound, "")
	for _, reference := range []string{"shop", s.ID.String()} {
		_, err = f.Use(t.Context(), other, Use{Secret: reference, SessionID: session, Field: Password, Origin: testOrigin})
		assertFault(t, err, fault.NotFound, "")
	}
	f.exec(`DELETE FROM organizations WHERE id = $1`, f.org)
	var left int
	if err := f.system.GetContext(t.Context(), &left, `SELECT count(*) FROM secrets`); err != nil || left != 0 {
		t.Errorf("%d secrets remain: %v", left, err)
	}
}

func TestAudit_RecordsChangesAndUsesWithoutValues(t *testing.T) {
	f := newFixture(t)
	s := f.create(draft("shop"))
	f.update(s.ID, `{"password": "another password", "totpSeed": "`+testSeed+`"}`)
	for _, field := range []Field{Username, Password, TOTP} {
		if _, err := f.use("shop", field); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.Use(t.Context(), f.org, Use{Secret: "shop", SessionID: uuid.New(), Field: Password, Origin: testOrigin})
	assertFault(t, err, fault.Conflict, "")
	if err := f.Delete(t.Context(), f.org, s.ID); err != nil {
		t.Fatal(err)
	}
	actions, details := f.events()
	if want := []string{created, updated, used, used, used, deleted}; !slices.Equal(actions, want) {
		t.Errorf("recorded %v, want %v", actions, want)
	}
	for _, value := range []string{testPassword, "another password", testSeed, "287082"} {
		if strings.Contains(details, value) {
			t.Errorf("the audit log contains %s: %s", value, details)
		}
	}
	for _, part := range []string{`"fields": ["password", "totpSeed"]`, `"field": "totp"`, `"name": "shop"`, `"origin": "` + testOrigin + `"`, `"sessionId"`} {
		if !strings.Contains(details, part) {
			t.Errorf("the audit log does not contain %s: %s", part, details)
		}
	}
}

func TestReencrypt_AllowsRemovalOfOldKey(t *testing.T) {
	f := newFixture(t)
	f.create(draft("shop"))
	f.create(Draft{Fields: Fields{Name: "empty", Origins: []string{testOrigin}}})
	before := f.update(f.create(draft("store")).ID, `{"totpSeed": null}`)
	total, unreadable, err := Check(t.Context(), f.system, newBox(t, 2))
	if err != nil || total != 3 || len(unreadable) != 3 {
		t.Errorf("checked %d, unreadable %v: %v", total, unreadable, err)
	}
	if n, err := Reencrypt(t.Context(), f.system, newBox(t, 2, 1)); err != nil || n != 3 {
		t.Fatalf("re-encrypted %d: %v", n, err)
	}
	f.Sealer = newBox(t, 2)
	if _, unreadable, err = Check(t.Context(), f.system, f.Sealer); err != nil || len(unreadable) > 0 {
		t.Errorf("unreadable %v: %v", unreadable, err)
	}
	if value, err := f.use("shop", TOTP); err != nil || value.Text != "287082" {
		t.Errorf("the code is %+v: %v", value, err)
	}
	if value, err := f.use("store", Password); err != nil || value.Text != testPassword {
		t.Errorf("the password is %+v: %v", value, err)
	}
	if after, err := f.Get(t.Context(), f.org, before.ID); err != nil || !after.UpdatedAt.Equal(before.UpdatedAt) || after.HasTOTP {
		t.Errorf("changed to %+v: %v", after, err)
	}
	f.exec(`UPDATE secrets SET password_secret = (SELECT password_secret FROM secrets WHERE name = 'store') WHERE name = 'shop'`)
	if _, err := f.use("shop", Password); err == nil {
		t.Error("a value was decrypted at the place of another one")
	}
	if _, err := Reencrypt(t.Context(), f.system, newBox(t, 3)); err == nil {
		t.Error("re-encrypted without the key")
	}
}
