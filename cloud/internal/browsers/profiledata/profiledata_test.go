package profiledata

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// fixture is a Service on its own database, with one organization and one profile.
type fixture struct {
	*Service
	t            *testing.T
	dsn          string
	org, profile uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dsn: dbtest.NewDSN(t)}
	f.Service = &Service{DB: dbtest.Open(t, f.dsn, pg.Options{Role: pg.AppRole, MaxOpen: 12}), Sealer: newBox(t, 1)}
	f.org, f.profile = f.tenant()
	return f
}

func newBox(t *testing.T, ids ...byte) *secret.Box {
	t.Helper()
	var keys []secret.Key
	for _, id := range ids {
		keys = append(keys, secret.Key{ID: id, Bytes: bytes.Repeat([]byte{id}, secret.KeySize)})
	}
	b, err := secret.New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exec runs a statement as the system.
func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := dbtest.Open(f.t, f.dsn, pg.Options{Role: pg.AllRole}).ExecContext(f.t.Context(), query, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) tenant() (org, profile uuid.UUID) {
	f.t.Helper()
	org, profile = uuid.New(), uuid.New()
	f.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'x', $2, now())`, org, org.String())
	f.exec(`INSERT INTO profiles (id, organization_id, name, browser_version, persist, created_at, updated_at) VALUES ($1, $2, 'p', 156, true, now(), now())`, profile, org)
	return org, profile
}

// session returns the request of a session with a slot.
func (f *fixture) session(machine string) Request {
	f.t.Helper()
	r := Request{ProfileID: f.profile, SessionID: uuid.New(), MachineID: machine}
	f.exec(`INSERT INTO license_slots (id, organization_id, profile_id, session_id, machine_id, boot_id, state, reserved_at, lease_until)
		VALUES (gen_random_uuid(), $1, $2, $3, $4, gen_random_uuid(), 'running', now(), now() + interval '5 minutes')`, f.org, r.ProfileID, r.SessionID, machine)
	return r
}

// release releases the slot of a session, as the end of it does.
func (f *fixture) release(r Request) {
	f.t.Helper()
	f.exec(`UPDATE license_slots SET state = 'released', released_at = now() WHERE session_id = $1`, r.SessionID)
}

func (f *fixture) acquire(r Request) Access {
	f.t.Helper()
	access, err := f.Acquire(f.t.Context(), f.org, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return access
}

func commitOf(r Request, previous *uuid.UUID) Commit {
	return Commit{
		Version:  Version{ID: uuid.New(), ProfileID: r.ProfileID, SessionID: r.SessionID, MachineID: r.MachineID, SizeBytes: 7, SentBytes: 5},
		Previous: previous, Keep: 2,
	}
}

// save saves a version with a session of its own.
func (f *fixture) save() Version {
	f.t.Helper()
	r := f.session("worker-1")
	version, err := f.Commit(f.t.Context(), f.org, commitOf(r, f.acquire(r).VersionID))
	if err != nil {
		f.t.Fatal(err)
	}
	f.release(r)
	return version
}

func assertKind(t *testing.T, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v, want a fault of kind %v", err, kind)
	}
	return fault.From(err)
}

func TestAcquire_RefusesSecondSessionWithHolder(t *testing.T) {
	f := newFixture(t)
	first, second := f.session("worker-1"), f.session("worker-2")
	f.acquire(first)
	f.acquire(first) // a repeated request
	_, err := f.Acquire(t.Context(), f.org, second)
	refused := assertKind(t, err, fault.Conflict)
	if holder := refused.Details[0].Constraint; holder["machineId"] != "worker-1" || holder["sessionId"] != first.SessionID || holder["until"] == nil {
		t.Errorf("got holder %v", holder)
	}
	reader := Request{ProfileID: f.profile, SessionID: uuid.New(), MachineID: "worker-2", ReadOnly: true}
	f.acquire(reader)
	f.release(first)
	f.acquire(second)
	_, err = f.Commit(t.Context(), f.org, commitOf(first, nil)) // its slot was released
	assertKind(t, err, fault.Conflict)
	_, err = f.Commit(t.Context(), f.org, commitOf(reader, nil))
	assertKind(t, err, fault.Conflict)
	_, err = f.Acquire(t.Context(), f.org, Request{ProfileID: f.profile, SessionID: uuid.New(), MachineID: "worker-2"})
	assertKind(t, err, fault.Conflict) // no slot
}

// TestAcquire_RefusesWhileVersionMayBePending checks the data of a session whose slot was
// reclaimed because its worker was silent.
func TestAcquire_RefusesWhileVersionMayBePending(t *testing.T) {
	f := newFixture(t)
	first, second := f.session("worker-1"), f.session("worker-2")
	previous := f.acquire(first).VersionID
	lapse := func(ago string) {
		t.Helper()
		f.exec(`UPDATE license_slots SET state = 'released', released_at = now(), release_reason = 'lapsed', lease_until = now() - $2::interval
			WHERE session_id = $1`, first.SessionID, ago)
	}
	lapse("20 minutes")
	_, err := f.Acquire(t.Context(), f.org, second)
	if holder := assertKind(t, err, fault.Conflict).Details[0].Constraint; holder["sessionId"] != first.SessionID {
		t.Errorf("got holder %v", holder)
	}
	saved, err := f.Commit(t.Context(), f.org, commitOf(first, previous))
	if err != nil {
		t.Fatal(err)
	}

	f.exec(`INSERT INTO license_machines (organization_id, machine_id, boot_id, seq, heartbeat_at, previous_at)
		VALUES ($1, 'worker-1', gen_random_uuid(), 1, now(), now() - interval '1 minute')`, f.org)
	lapse("20 minutes")
	_, err = f.Acquire(t.Context(), f.org, second) // the only heartbeat since may still adopt the slot
	assertKind(t, err, fault.Conflict)
	f.exec(`UPDATE license_machines SET previous_at = now()`)
	if access := f.acquire(second); access.VersionID == nil || *access.VersionID != saved.ID {
		t.Errorf("got version %v, want %s", access.VersionID, saved.ID)
	}
}

func TestAcquire_EndsLeaseOfLostWorker(t *testing.T) {
	f := newFixture(t)
	first, second := f.session("worker-1"), f.session("worker-2")
	f.acquire(first)
	f.exec(`UPDATE license_slots SET state = 'released', released_at = now(), release_reason = 'lapsed', lease_until = now() - interval '31 minutes'
		WHERE session_id = $1`, first.SessionID)
	f.acquire(second)
}

func TestAcquire_GivesLeaseToOneOfManySessions(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	results := make(chan error, 20)
	for i := range cap(results) {
		r := f.session(fmt.Sprintf("worker-%d", i))
		wg.Go(func() {
			_, err := f.Acquire(t.Context(), f.org, r)
			results <- err
		})
	}
	wg.Wait()
	close(results)
	granted := 0
	for err := range results {
		if err == nil {
			granted++
		} else {
			assertKind(t, err, fault.Conflict)
		}
	}
	if granted != 1 {
		t.Errorf("%d sessions have the lease", granted)
	}
}

func TestCommit_KeepsNewestVersions(t *testing.T) {
	f := newFixture(t)
	first, second, third := f.save(), f.save(), f.save()
	found, err := f.List(t.Context(), f.org, f.profile)
	if err != nil || len(found) != 2 || found[0].ID != third.ID || !found[0].Current || found[1].ID != second.ID || found[1].Current {
		t.Errorf("after %s got versions %+v, %v", first.ID, found, err)
	}
	r := f.session("worker-1")
	access := f.acquire(r)
	_, err = f.Commit(t.Context(), f.org, commitOf(r, &second.ID))
	assertKind(t, err, fault.Conflict)
	commit := commitOf(r, access.VersionID)
	for range 2 { // a repeated commit has no effect
		if v, err := f.Commit(t.Context(), f.org, commit); err != nil || !v.Current || v.SizeBytes != 7 || v.SentBytes != 5 {
			t.Errorf("got %+v, %v", v, err)
		}
	}
}

func TestRestore_MakesOlderVersionCurrent(t *testing.T) {
	f := newFixture(t)
	first, second := f.save(), f.save()
	if now, err := f.Restore(t.Context(), f.org, f.profile, first.ID); err != nil || !now.Current {
		t.Errorf("restore: %+v, %v", now, err)
	}
	r := f.session("worker-1")
	if access := f.acquire(r); *access.VersionID != first.ID {
		t.Errorf("the next session gets %v", access.VersionID)
	}
	_, err := f.Restore(t.Context(), f.org, f.profile, second.ID)
	assertKind(t, err, fault.Conflict)
	assertKind(t, f.Delete(t.Context(), f.org, f.profile, second.ID), fault.Conflict)
	f.release(r)
	assertKind(t, f.Delete(t.Context(), f.org, f.profile, uuid.New()), fault.NotFound)
	for _, id := range []uuid.UUID{first.ID, second.ID} { // after the first, the second is the current one
		if err := f.Delete(t.Context(), f.org, f.profile, id); err != nil {
			t.Error(err)
		}
	}
	if access := f.acquire(f.session("worker-1")); access.VersionID != nil {
		t.Errorf("after the last version was deleted got %v", access.VersionID)
	}
}

func TestCommit_AfterRestoreKeepsNewVersion(t *testing.T) {
	f := newFixture(t)
	first := f.save()
	f.save()
	if _, err := f.Restore(t.Context(), f.org, f.profile, first.ID); err != nil {
		t.Fatal(err)
	}
	if version := f.save(); !version.Current {
		t.Errorf("got %+v", version)
	}
}

func TestProfileData_BelongsToOneOrganization(t *testing.T) {
	f := newFixture(t)
	version := f.save()
	mine := f.acquire(f.session("worker-1"))
	other, otherProfile := f.tenant()
	_, err := f.List(t.Context(), other, f.profile)
	assertKind(t, err, fault.NotFound)
	_, err = f.Restore(t.Context(), other, f.profile, version.ID)
	assertKind(t, err, fault.NotFound)
	_, err = f.Acquire(t.Context(), other, Request{ProfileID: f.profile, ReadOnly: true})
	assertKind(t, err, fault.NotFound)
	theirs, err := f.Acquire(t.Context(), other, Request{ProfileID: otherProfile, ReadOnly: true})
	if err != nil || len(theirs.Key) != keySize || bytes.Equal(mine.Key, theirs.Key) {
		t.Errorf("got a key of %d bytes, equal %t, %v", len(theirs.Key), bytes.Equal(mine.Key, theirs.Key), err)
	}
}

func TestDeleteProfile_DeletesVersions(t *testing.T) {
	f := newFixture(t)
	f.save()
	f.exec(`DELETE FROM profiles WHERE id = $1`, f.profile)
	var left int
	if err := dbtest.Open(t, f.dsn, pg.Options{Role: pg.AllRole}).GetContext(t.Context(), &left, `SELECT count(*) FROM profile_data_versions`); err != nil || left != 0 {
		t.Errorf("%d versions are left, %v", left, err)
	}
}

func TestReencryptKeys_KeepsKeys(t *testing.T) {
	f := newFixture(t)
	before := f.acquire(f.session("worker-1"))
	all := dbtest.Open(t, f.dsn, pg.Options{Role: pg.AllRole})
	if _, unreadable, err := CheckKeys(t.Context(), all, newBox(t, 2)); err != nil || len(unreadable) != 1 {
		t.Errorf("without the key: %v, %v", unreadable, err)
	}
	if n, err := ReencryptKeys(t.Context(), all, newBox(t, 2, 1)); err != nil || n != 1 {
		t.Errorf("re-encrypted %d, %v", n, err)
	}
	f.Sealer = newBox(t, 2)
	after, err := f.Acquire(t.Context(), f.org, Request{ProfileID: f.profile, ReadOnly: true})
	if err != nil || !bytes.Equal(after.Key, before.Key) {
		t.Errorf("the key changed, %v", err)
	}
	if n, unreadable, err := CheckKeys(t.Context(), all, newBox(t, 2)); err != nil || n != 1 || len(unreadable) != 0 {
		t.Errorf("with the key: %d, %v, %v", n, unreadable, err)
	}
}
