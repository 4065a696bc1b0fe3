package apikey_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/testenv"
)

type fixture struct {
	*apikey.Service
	*apikey.Verifier
	db     *sqlx.DB
	clock  *clock.Fake
	audit  *journal
	orgID  uuid.UUID
	userID uuid.UUID
	log    *testenv.Log
}

// journal records audit events as "action target details".
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) Record(_ context.Context, _ *sqlx.Tx, _ uuid.UUID, action, targetID string, details map[string]any) error {
	text, err := json.Marshal(details)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, action+" "+targetID+" "+string(text))
	return err
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	f := fixture{
		db: dbtest.Open(t, dsn, pg.Options{}), clock: clock.NewFake(time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC)),
		userID: uuid.Must(uuid.NewV7()), audit: &journal{}, log: &testenv.Log{},
	}
	f.Service = &apikey.Service{DB: dbtest.Open(t, dsn, pg.Options{Role: pg.AppRole}), Clock: f.clock, Audit: f.audit}
	var err error
	f.Verifier, err = apikey.NewVerifier(t.Context(), dbtest.Open(t, dsn, pg.Options{Role: pg.AllRole}), f.clock, slog.New(slog.NewTextHandler(f.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	f.db.MustExec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, 'a@example.com', 'A', '-', now())`, f.userID)
	f.orgID = f.organization(t)
	return f
}

func (f fixture) organization(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	f.db.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'O', $2, now())`, id, id.String())
	return id
}

func (f fixture) create(t *testing.T, n apikey.NewKey) (apikey.Key, string) {
	t.Helper()
	k, secret, err := f.Create(t.Context(), f.orgID, f.userID, n)
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Second)
	return k, secret
}

func (f fixture) list(t *testing.T, sortBy string) []apikey.Key {
	t.Helper()
	got, err := f.List(t.Context(), f.orgID, page.Request{Page: 1, Limit: 10, SortBy: sortBy})
	if err != nil {
		t.Fatal(err)
	}
	if got.Total != len(got.Items) {
		t.Errorf("total %d of %d", got.Total, len(got.Items))
	}
	return got.Items
}

func TestCreate_ReturnsSecretOnce(t *testing.T) {
	f := newFixture(t)
	now := f.clock.Now()
	k, secret := f.create(t, apikey.NewKey{Name: "fleet"})
	if !regexp.MustCompile(`^svc_[a-z2-7]{32}$`).MatchString(secret) {
		t.Errorf("the key is %q", secret)
	}
	want := apikey.Key{
		ID: k.ID, Name: "fleet", Prefix: secret[:8], LastFour: secret[32:],
		CreatedBy: uuid.NullUUID{UUID: f.userID, Valid: true}, CreatedAt: now,
	}
	if diff := cmp.Diff(want, k); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]apikey.Key{want}, f.list(t, "createdAt")); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	var row string
	if err := f.db.Get(&row, `SELECT k::text || encode(k.key_hash, 'escape') FROM api_keys k`); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(row, secret) || strings.Contains(row, secret[8:32]) {
		t.Errorf("the key is stored in plain text in %s", row)
	}
}

func TestCreate_RefusesPastExpiry(t *testing.T) {
	f := newFixture(t)
	for _, expires := range []time.Time{f.clock.Now(), f.clock.Now().Add(-time.Hour), f.clock.Now().Add(time.Nanosecond)} {
		_, _, err := f.Create(t.Context(), f.orgID, f.userID, apikey.NewKey{Name: "k", ExpiresAt: &expires})
		if !fault.Is(err, fault.Validation) || fault.From(err).Details[0].Field != "expiresAt" {
			t.Errorf("%v: error %v, want one about expiresAt", expires, err)
		}
	}
}

func TestVerify_AcceptsValidKeys(t *testing.T) {
	f := newFixture(t)
	key, first := f.create(t, apikey.NewKey{Name: "old"})
	two, second := f.create(t, apikey.NewKey{Name: "new"})
	for secret, want := range map[string]uuid.UUID{first: key.ID, second: two.ID} {
		got, err := f.Verify(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(apikey.Identity{KeyID: want, OrgID: f.orgID}, got); diff != "" {
			t.Errorf("identity (-want +got):\n%s", diff)
		}
	}
}

func wantRefused(t *testing.T, f fixture, secret string) {
	t.Helper()
	if got, err := f.Verify(t.Context(), secret); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("%q: identity %v, error %v; want a refusal", secret, got, err)
	}
}

func TestVerify_RefusesMalformedKeys(t *testing.T) {
	f := newFixture(t)
	_, secret := f.create(t, apikey.NewKey{Name: "k"})
	for _, text := range []string{
		"", "svc_", secret + "a", secret[:35], strings.ToUpper(secret), "SVC_" + secret[4:], secret[4:],
		"svc_" + strings.Repeat("a", 32), "svc_" + strings.Repeat("1", 32), secret[:35] + "\x00", " " + secret,
	} {
		wantRefused(t, f, text)
	}
}

func TestVerify_RefusesExpiredKey(t *testing.T) {
	f := newFixture(t)
	expires := f.clock.Now().Add(time.Hour)
	_, secret := f.create(t, apikey.NewKey{Name: "k", ExpiresAt: &expires})
	f.clock.Advance(time.Hour - time.Second - time.Microsecond)
	if _, err := f.Verify(t.Context(), secret); err != nil {
		t.Errorf("just before its expiry: %v", err)
	}
	f.clock.Advance(time.Microsecond)
	wantRefused(t, f, secret)
}

func TestVerify_RefusesRevokedKeyAtOnce(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "k"})
	other, otherSecret := f.create(t, apikey.NewKey{Name: "other"})
	if _, err := f.Verify(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := f.Revoke(t.Context(), f.orgID, k.ID); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, f, secret)
	if _, err := f.Verify(t.Context(), otherSecret); err != nil {
		t.Errorf("the other key: %v", err)
	}
	if left := f.list(t, "createdAt"); len(left) != 1 || left[0].ID != other.ID {
		t.Errorf("listed: %v, want the other key only", left)
	}
}

func TestRevoke_UnknownKeyIsNotFound(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "k"})
	foreign := f.organization(t)
	for name, err := range map[string]error{
		"foreign": f.Revoke(t.Context(), foreign, k.ID),
		"unknown": f.Revoke(t.Context(), f.orgID, uuid.New()),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: error %v, want not found", name, err)
		}
	}
	if _, err := f.Verify(t.Context(), secret); err != nil {
		t.Errorf("after the foreign revocation: %v", err)
	}
	if err := f.Revoke(t.Context(), f.orgID, k.ID); err != nil {
		t.Fatal(err)
	}
	if err := f.Revoke(t.Context(), f.orgID, k.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("again: error %v, want not found", err)
	}
}

func TestRecordUse_WritesOncePerMinute(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "k"})
	use := func() time.Time {
		t.Helper()
		if _, err := f.Verify(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		f.WaitUses()
		return *f.list(t, "createdAt")[0].LastUsedAt
	}
	start := f.clock.Now()
	if got := use(); !got.Equal(start) {
		t.Errorf("first use at %v, want %v", got, start)
	}
	f.clock.Advance(time.Minute - time.Microsecond)
	if got := use(); !got.Equal(start) {
		t.Errorf("within the minute: %v, want %v", got, start)
	}
	f.clock.Advance(time.Microsecond)
	if got := use(); !got.Equal(start.Add(time.Minute)) {
		t.Errorf("after the minute: %v, want %v", got, start.Add(time.Minute))
	}
	f.clock.Advance(time.Minute)
	unknown := uuid.New()
	if rejected := f.Reject([]uuid.UUID{k.ID, unknown}, []uuid.UUID{k.ID}); len(rejected) != 1 || !fault.Is(rejected[unknown], fault.Unauthenticated) {
		t.Errorf("rejected %v, want only %s", rejected, unknown)
	}
	if got := use(); !got.Equal(start.Add(2 * time.Minute)) {
		t.Errorf("after a recorded use: %v, want %v", got, start.Add(2*time.Minute))
	}
}

func TestRecordUse_DoesNotWaitForLocks(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "k"})
	tx := f.db.MustBegin()
	defer tx.Rollback()
	tx.MustExec(`UPDATE api_keys SET last_used_at = now() WHERE id = $1`, k.ID)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := f.Verify(t.Context(), secret); err != nil {
				t.Errorf("beside a transaction that writes the key: %v", err)
			}
		})
	}
	all.Wait()
}

func TestVerify_DoesNotWaitForUseWrites(t *testing.T) {
	f := newFixture(t)
	var secrets []string
	for range 4 {
		_, secret := f.create(t, apikey.NewKey{Name: "k"})
		secrets = append(secrets, secret)
	}
	tx := f.db.MustBegin()
	defer tx.Rollback()
	tx.MustExec(`LOCK TABLE api_keys IN SHARE MODE`) // keys can be read but not written
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, secret := range secrets {
		if _, err := f.Verify(ctx, secret); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	f.WaitUses()
	var written struct{ Keys, Writes int }
	err := f.db.Get(&written, `SELECT count(last_used_at) AS keys, count(DISTINCT xmin::text) AS writes FROM api_keys`)
	if err != nil || written.Keys != len(secrets) || written.Writes > 2 {
		t.Errorf("got %+v, %v; want all keys in the waiting write and the next one", written, err)
	}
}

func TestVerify_IgnoresFailedUseWrites(t *testing.T) {
	f := newFixture(t)
	_, secret := f.create(t, apikey.NewKey{Name: "k"})
	f.db.MustExec(`ALTER TABLE api_keys ADD CONSTRAINT never CHECK (last_used_at IS NULL)`)
	for range 3 {
		if _, err := f.Verify(t.Context(), secret); err != nil {
			t.Error(err)
		}
		f.WaitUses()
	}
	if n := strings.Count(f.log.String(), "failed to write last use of keys"); n != 1 {
		t.Errorf("logged %d times, want once per minute: %s", n, f.log.String())
	}
}

func TestList_Sorts(t *testing.T) {
	f := newFixture(t)
	b, secret := f.create(t, apikey.NewKey{Name: "b"})
	a, _ := f.create(t, apikey.NewKey{Name: "a"})
	if _, err := f.Verify(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.WaitUses()
	for sortBy, want := range map[string][]uuid.UUID{
		"name": {a.ID, b.ID}, "createdAt": {b.ID, a.ID}, "lastUsedAt": {a.ID, b.ID},
	} {
		var got []uuid.UUID
		for _, k := range f.list(t, sortBy) {
			got = append(got, k.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", sortBy, diff)
		}
	}
}

func TestVerify_BatchReturnsEachIdentity(t *testing.T) {
	f := newFixture(t)
	want := map[string]apikey.Identity{"svc_" + strings.Repeat("a", 32): {}}
	for range 3 {
		f.orgID = f.organization(t)
		for range 2 {
			key, secret := f.create(t, apikey.NewKey{Name: "n"})
			want[secret] = apikey.Identity{KeyID: key.ID, OrgID: f.orgID}
		}
		revoked, secret := f.create(t, apikey.NewKey{Name: "n"})
		if err := f.Revoke(t.Context(), f.orgID, revoked.ID); err != nil {
			t.Fatal(err)
		}
		want[secret] = apikey.Identity{}
	}
	var group sync.WaitGroup
	for secret, identity := range want {
		for range 20 {
			group.Go(func() {
				got, err := f.Verify(t.Context(), secret)
				if got != identity || (err != nil) != (identity == apikey.Identity{}) {
					t.Errorf("got %+v, %v, want %+v", got, err, identity)
				}
			})
		}
	}
	group.Wait()
}

func TestRecall_KnowsValidatedKeys(t *testing.T) {
	f := newFixture(t)
	k, secret := f.create(t, apikey.NewKey{Name: "k"})
	_, other := f.create(t, apikey.NewKey{Name: "other"})
	if got, ok := f.Recall(secret); ok {
		t.Errorf("before its first use: %+v", got)
	}
	if _, err := f.Verify(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, f, "svc_"+strings.Repeat("a", 32))
	want := apikey.Identity{KeyID: k.ID, OrgID: f.orgID}
	if got, ok := f.Recall(secret); !ok || got != want {
		t.Errorf("recalled %+v, %v, want %+v", got, ok, want)
	}
	for _, text := range []string{other, "svc_" + strings.Repeat("a", 32), "", secret[:35]} {
		if got, ok := f.Recall(text); ok {
			t.Errorf("recalled %+v for the unknown key %q", got, text)
		}
	}
}
