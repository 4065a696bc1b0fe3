package activity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// key creates an organization key with that name.
func (f *fixture) key(org uuid.UUID, name string) uuid.UUID {
	f.t.Helper()
	id := newID()
	f.feed.DB.MustExecContext(f.t.Context(), `INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_at)
		VALUES ($1::uuid, $2, $3, sha256($1::uuid::text::bytea), 'svc_', 'abcd', now())`, id, org, name)
	return id
}

func TestGet_ReturnsSessionWithKey(t *testing.T) {
	f := newFixture(t)
	s := f.start(noon)
	s.KeyID = f.key(f.org, "fleet")
	f.started(s)
	f.started(Start{SessionID: s.SessionID, OrganizationID: f.org}) // restored: the key stays
	f.ended(s.end(noon.Add(time.Minute)))
	f.clock.Advance(time.Hour)
	ended := noon.Add(time.Minute)
	want := Detail{Session: s.running(time.Minute), KeyName: new("fleet")}
	want.KeyID, want.Status, want.EndReason, want.EndedAt = &s.KeyID, "killed", new("idle"), &ended
	got, err := f.feed.Get(t.Context(), f.org, s.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.feed.DB.MustExecContext(t.Context(), `UPDATE api_keys SET revoked_at = now()`)
	if got, err := f.feed.Get(t.Context(), f.org, s.SessionID); err != nil || got.KeyName == nil {
		t.Errorf("after the key is revoked: %+v, %v", got, err)
	}
}

func TestGet_UnknownKeyHasNoName(t *testing.T) {
	f := newFixture(t)
	s, without := f.start(noon), f.start(noon)
	s.KeyID = f.key(f.organization(), "theirs") // of another organization
	f.started(s, without)
	if got, err := f.feed.Get(t.Context(), f.org, s.SessionID); err != nil || got.KeyName != nil || *got.KeyID != s.KeyID {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := f.feed.Get(t.Context(), f.org, without.SessionID); err != nil || got.KeyName != nil || got.KeyID != nil {
		t.Errorf("without a key: %+v, %v", got, err)
	}
}

func TestGet_ForeignSessionNotFound(t *testing.T) {
	f := newFixture(t)
	s := f.start(noon)
	f.started(s)
	for name, ids := range map[string][2]uuid.UUID{
		"another organization": {f.organization(), s.SessionID}, "an unknown session": {f.org, newID()},
	} {
		if got, err := f.feed.Get(t.Context(), ids[0], ids[1]); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
