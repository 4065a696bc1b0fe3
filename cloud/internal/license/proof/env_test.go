package proof_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/clock"
)

const replicas = 3

// testEnv is the cloud that a script runs on: replicas of the service on one database,
// and the organization of the script.
type testEnv struct {
	t        testing.TB
	db       *sqlx.DB // the test's own pool, without faults
	tables   *sqlx.Stmt
	clock    *clock.Fake
	replicas [replicas]*replica
	user     uuid.UUID
	org      uuid.UUID
	orgs     int

	otherOrg     uuid.UUID // another organization; Nil if there is none
	otherOrgRows string    // its rows, which must not change

	mu      sync.Mutex
	byName  map[string]uuid.UUID
	byID    map[uuid.UUID]string
	boots   []uuid.UUID
	secrets map[string]string
	slots   map[session]uuid.UUID // as returned to the workers
	began   time.Time             // time of second 0 of the script
}

// replica is a process of the cloud.
type replica struct {
	*license.Service
	db     *sqlx.DB
	keys   *apikey.Service
	checks *apikey.Verifier
	driver *faultyDriver

	started time.Time
}

// newTestEnv starts the replicas on the database. A fault applies to the drivers of
// all of them.
func newTestEnv(t testing.TB, dsn string, fault *mutation) *testEnv {
	t.Helper()
	s := &testEnv{t: t, db: dbtest.Open(t, dsn, pg.Options{MaxOpen: 4}), clock: clock.NewFake(time.Now())}
	s.exec(`CREATE TABLE IF NOT EXISTS feed (organization_id uuid, session_id uuid, running boolean NOT NULL, reason text, PRIMARY KEY (organization_id, session_id))`)
	s.exec(`CREATE TABLE IF NOT EXISTS made (organization_id uuid, id uuid, away boolean NOT NULL DEFAULT false, PRIMARY KEY (organization_id, id))`)
	s.exec(`CREATE TABLE IF NOT EXISTS ceilings (organization_id uuid PRIMARY KEY, most int NOT NULL)`)
	s.tables = s.prepare(t, tablesSQL)
	s.user = uuid.New()
	s.exec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, $2, 'Test', '', now())`, s.user, s.user.String())
	for i := range s.replicas {
		w := &faultyDriver{fault: fault}
		db := w.open(t, dsn)
		t.Cleanup(func() { db.Close() })
		keys := &apikey.Service{DB: db, Clock: s.clock, Audit: noAudit{}}
		s.replicas[i] = &replica{db: db, keys: keys, driver: w}
		s.start(s.replicas[i])
	}
	t.Cleanup(func() {
		for _, r := range s.replicas {
			r.close()
		}
	})
	return s
}

func (s *testEnv) prepare(t testing.TB, text string) *sqlx.Stmt {
	t.Helper()
	prepared, err := s.db.PreparexContext(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return prepared
}

func (s *testEnv) start(r *replica) {
	s.t.Helper()
	service, err := license.New(s.t.Context(), r.db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{
		Clock: s.clock, ReclaimEvery: time.Nanosecond, ReapGrace: reapGrace * time.Second,
	})
	if err != nil {
		s.t.Fatalf("start a replica: %v", err)
	}
	r.Service, r.started = service, s.clock.Now()
	if r.checks, err = apikey.NewVerifier(s.t.Context(), r.db, s.clock, slog.New(slog.DiscardHandler)); err != nil {
		s.t.Fatalf("start a replica: %v", err)
	}
}

// close ends the calls in progress. For a crashed replica it may fail.
func (r *replica) close() {
	r.checks.Close()
	r.Close()
}

// restart closes the replica and starts it again.
func (s *testEnv) restart(r *replica) {
	s.t.Helper()
	r.close()
	s.start(r)
}

// newOrganization creates the organization that the script uses from now on.
func (s *testEnv) newOrganization(m *model, keys int) {
	s.t.Helper()
	s.orgs++
	s.org = uuid.Must(uuid.NewV7())
	clear(s.slots)
	s.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', $2, now())`, s.org, s.org.String())
	s.exec(`INSERT INTO ceilings VALUES ($1, $2)`, s.org, m.most)
	*m = model{
		now: m.now, exists: true, limit: m.limit, most: m.most, keys: map[string]bool{},
		slots: map[session]slot{}, machines: map[machine]machineState{}, late: map[bootKey]supersededBoot{},
	}
	if a := (limit{m.limit}).send(s.t.Context(), s, &replica{Service: s.replicas[0].Service, db: s.db}); a.err != nil {
		s.t.Fatal(a.err)
	}
	registrar := apikey.Service{DB: s.db, Clock: s.clock, Audit: noAudit{}}
	for i := range keys {
		key, secret, err := registrar.Create(s.t.Context(), s.org, s.user, apikey.NewKey{Name: "test"})
		if err != nil {
			s.t.Fatal(err)
		}
		name := s.key(i)
		s.secrets[name] = secret
		s.setName(name, key.ID)
		m.keys[name] = true
	}
}

func (s *testEnv) key(i int) string { return fmt.Sprintf("key%d.%d", s.orgs, i) }

// reset clears the state of the previous script.
func (s *testEnv) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName, s.byID, s.secrets = map[string]uuid.UUID{}, map[uuid.UUID]string{}, map[string]string{}
	s.boots, s.slots, s.orgs, s.began = nil, map[session]uuid.UUID{}, 0, s.clock.Now()
}

// id returns the id with that name.
func (s *testEnv) id(name string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, found := s.byName[name]
	if !found {
		id = uuid.Must(uuid.NewV7())
		s.byName[name], s.byID[id] = id, name
	}
	return id
}

func (s *testEnv) setName(name string, id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name], s.byID[id] = id, name
}

func (s *testEnv) ids(names []session) []uuid.UUID {
	ids := make([]uuid.UUID, len(names))
	for i, name := range names {
		ids[i] = s.id(string(name))
	}
	return ids
}

func (s *testEnv) names(ids []uuid.UUID) []session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []session
	for _, id := range ids {
		names = append(names, session(s.byID[id]))
	}
	return names
}

// newBoot starts a worker.
func (s *testEnv) newBoot() boot {
	b := boot(len(s.boots))
	id := uuid.New()
	if b.v7() {
		id = uuid.Must(uuid.NewV7())
	}
	s.boots = append(s.boots, id)
	return b
}

func (s *testEnv) boot(b boot) uuid.UUID { return s.boots[b] }

func (s *testEnv) secret(key string) string { return s.secrets[key] }

// recordSlot records the slot id of an answer.
func (s *testEnv) recordSlot(name session, slotID uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[name] = slotID
}

func (s *testEnv) slotOf(name session) *uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, found := s.slots[name]; found {
		return &id
	}
	return nil
}

func (s *testEnv) exec(text string, args ...any) {
	s.t.Helper()
	if _, err := s.db.ExecContext(context.Background(), text, args...); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
}

// moment returns the time of that second of the script.
func (s *testEnv) moment(second int) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(time.Duration(second)*time.Second - s.clock.Now().Sub(s.began).Truncate(time.Second))
}

// shift makes all rows of the organization older, which is equivalent to time passing.
func (s *testEnv) shift(seconds int) {
	s.t.Helper()
	s.clock.Advance(time.Duration(seconds) * time.Second)
	s.exec(`WITH slots AS (
		UPDATE license_slots SET reserved_at = reserved_at - $2::interval, started_at = started_at - $2::interval,
			heartbeat_at = heartbeat_at - $2::interval, first_heartbeat_at = first_heartbeat_at - $2::interval,
			lease_until = lease_until - $2::interval, released_at = released_at - $2::interval, ended_at = ended_at - $2::interval
		WHERE organization_id = $1
	), machines AS (
		UPDATE license_machines SET heartbeat_at = heartbeat_at - $2::interval, previous_at = previous_at - $2::interval WHERE organization_id = $1
	), places AS (
		UPDATE license_queue SET lease_until = lease_until - $2::interval WHERE organization_id = $1
	)
	UPDATE license_superseded_boots SET since = since - $2::interval, heartbeat_at = heartbeat_at - $2::interval,
		alive_since = alive_since - $2::interval WHERE organization_id = $1`, s.org, fmt.Sprintf("%d seconds", seconds))
}

// newOtherOrg creates another organization with a copy of all rows: session, machine
// and boot ids are unique per organization only. Time does not pass for it, and no
// call may change it. The leases in a stale one have expired; only the reaper may act
// on them.
func (s *testEnv) newOtherOrg(stale bool) {
	s.t.Helper()
	s.dropOtherOrg()
	s.otherOrg = uuid.New()
	lease := "1 day"
	if stale {
		lease = "-1 hour"
	}
	s.exec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Other', $2, now())`, s.otherOrg, s.otherOrg.String())
	s.exec(`INSERT INTO license_org (organization_id, max_slots, in_use) SELECT $2, max_slots, in_use FROM license_org WHERE organization_id = $1`, s.org, s.otherOrg)
	s.exec(`INSERT INTO license_machines SELECT (jsonb_populate_record(m, jsonb_build_object('organization_id', $2::uuid))).*
		FROM license_machines m WHERE organization_id = $1`, s.org, s.otherOrg)
	s.exec(`INSERT INTO license_superseded_boots SELECT (jsonb_populate_record(l, jsonb_build_object('organization_id', $2::uuid))).*
		FROM license_superseded_boots l WHERE organization_id = $1`, s.org, s.otherOrg)
	s.exec(`INSERT INTO license_slots SELECT (jsonb_populate_record(s, jsonb_build_object(
			'organization_id', $2::uuid, 'id', gen_random_uuid(), 'lease_until', now() + $3::interval))).*
		FROM license_slots s WHERE organization_id = $1`, s.org, s.otherOrg, lease)
	s.otherOrgRows = s.readTables().OtherOrg
}

// dropOtherOrg deletes the other organization.
func (s *testEnv) dropOtherOrg() {
	s.t.Helper()
	if s.otherOrg != uuid.Nil {
		s.exec(`DELETE FROM organizations WHERE id = $1`, s.otherOrg)
	}
	s.otherOrg, s.otherOrgRows = uuid.Nil, ""
}
