package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
)

const setupTimeout = 10 * time.Minute // for the setup of a measurement

// startPostgres starts the PostgreSQL server of the run.
func (e *environment) startPostgres(ctx context.Context) (err error) {
	if e.postgresBin, err = embedded.FindBin(ctx, ""); err != nil {
		return err
	}
	e.postgres, err = embedded.Start(ctx, embedded.Options{
		DataDir: filepath.Join(e.dir, "postgres"), BinDir: e.postgresBin, Settings: map[string]string{"min_wal_size": "1GB"},
	})
	return err
}

// database is a database that a svc-cloud has migrated, with connections to change it directly.
type database struct {
	admin, owner *sqlx.DB
	pool         *sqlx.DB // as svc-cloud accounts for licenses
}

func (e *environment) openDatabase(ctx context.Context, dsn string) (d database, err error) {
	for _, pool := range []struct {
		db      **sqlx.DB
		dsn     string
		options pg.Options
	}{
		{&d.admin, e.postgres.AdminDSN(), pg.Options{MaxOpen: 2}}, {&d.owner, dsn, pg.Options{MaxOpen: 2}},
		{&d.pool, dsn, pg.Options{Role: pg.AllRole, PreferIndexes: true}},
	} {
		pool.options.Statement = setupTimeout
		if *pool.db, err = pg.Open(ctx, pool.dsn, pool.options); err != nil {
			return d, errors.Join(err, d.close())
		}
	}
	return d, nil
}

func (d database) close() error {
	var problems []error
	for _, pool := range []*sqlx.DB{d.admin, d.owner, d.pool} {
		if pool != nil {
			problems = append(problems, pool.Close())
		}
	}
	return errors.Join(problems...)
}

// fillWAL fills the write-ahead log as on a server that has run for a while. A new
// server stalls for 50 ms whenever it creates a log file.
func (d database) fillWAL(ctx context.Context) error {
	for _, text := range []string{
		`CREATE TABLE filler AS SELECT repeat(md5(i::text), 60) FROM generate_series(1, 250000) AS i`, `DROP TABLE filler`, `CHECKPOINT`,
	} {
		if _, err := d.admin.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("fill the write-ahead log: %w", err)
		}
	}
	return nil
}

// tenant is an organization with a key and a profile.
type tenant struct {
	Org, Profile uuid.UUID
	Key          string
}

const keyLength = 32 // of an organization key without its prefix

// profileSettings are those of a typical profile.
const profileSettings = `{"locale":"de-DE","timezoneId":"Europe/Berlin","viewport":{"width":1280,"height":720},"startUrls":["https://example.com/"]}`

// tenants creates organizations with a limit of slots; 0 is unlimited.
func (d database) tenants(ctx context.Context, n, limit int) ([]tenant, error) {
	all := make([]tenant, n)
	var orgs, profiles, hashes []string
	for i := range all {
		all[i] = tenant{newID(), newID(), "svc_" + strings.ToLower(rand.Text() + rand.Text())[:keyLength]}
		hash := sha256.Sum256([]byte(all[i].Key))
		orgs, profiles = append(orgs, all[i].Org.String()), append(profiles, all[i].Profile.String())
		hashes = append(hashes, fmt.Sprintf("%x", hash))
	}
	for _, statement := range []struct {
		text      string
		arguments []any
	}{
		{`INSERT INTO organizations (id, name, slug, created_at) SELECT id, 'Bench', id::text, now() FROM unnest($1::uuid[]) AS id`, []any{pq.Array(orgs)}},
		{`INSERT INTO license_org (organization_id, max_slots) SELECT id, NULLIF($2, 0) FROM unnest($1::uuid[]) AS id`, []any{pq.Array(orgs), limit}},
		{`INSERT INTO api_keys (id, organization_id, name, key_hash, prefix, last_four, created_at)
			SELECT gen_random_uuid(), org, 'Bench', decode(hash, 'hex'), 'svc_', 'last', now() FROM unnest($1::uuid[], $2::text[]) AS t (org, hash)`,
			[]any{pq.Array(orgs), pq.Array(hashes)}},
		{`INSERT INTO profiles (id, organization_id, name, browser_version, os, settings, created_at, updated_at)
			SELECT profile, org, 'Checkout in German', 156, 'linux', $3, now(), now() FROM unnest($1::uuid[], $2::uuid[]) AS t (org, profile)`,
			[]any{pq.Array(orgs), pq.Array(profiles), profileSettings}},
	} {
		if _, err := d.pool.ExecContext(ctx, statement.text, statement.arguments...); err != nil {
			return nil, fmt.Errorf("create organizations: %w", err)
		}
	}
	return all, nil
}

// runSessions inserts n running sessions of one machine of the tenant.
func (d database) runSessions(ctx context.Context, t tenant, boot uuid.UUID, n int) ([]uuid.UUID, error) {
	sessions := make([]uuid.UUID, n)
	for i := range sessions {
		sessions[i] = newID()
	}
	_, err := d.pool.ExecContext(ctx, `
		INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until)
		SELECT gen_random_uuid(), $1, session_id, $2, 'worker-1', $3, 'running', gen_random_uuid(), 156,
			now(), now(), now() + interval '6 hours' FROM unnest($4::uuid[]) AS session_id`, t.Org, t.Profile, boot, pq.Array(sessions))
	if err != nil {
		return nil, fmt.Errorf("insert sessions: %w", err)
	}
	return sessions, d.recount(ctx)
}

// recount corrects the counters after slots were inserted directly.
func (d database) recount(ctx context.Context) error {
	_, err := d.pool.ExecContext(ctx, `
		UPDATE license_org o SET in_use = live FROM (
			SELECT organization_id, count(*) AS live FROM license_slots WHERE released_at IS NULL GROUP BY organization_id) s
		WHERE s.organization_id = o.organization_id`)
	if err != nil {
		return fmt.Errorf("recount: %w", err)
	}
	return d.vacuumAndCheckpoint(ctx)
}

// clear deletes all slots, so that each part starts with empty tables.
func (d database) clear(ctx context.Context) error {
	_, err := d.owner.ExecContext(ctx, `TRUNCATE license_slots, license_machines, license_machine_info, license_events, license_superseded_boots`)
	if err == nil {
		_, err = d.pool.ExecContext(ctx, `UPDATE license_org SET in_use = 0 WHERE in_use > 0`)
	}
	if err != nil {
		return fmt.Errorf("clear the tables: %w", err)
	}
	return d.vacuumAndCheckpoint(ctx)
}

// vacuumAndCheckpoint updates the planner's statistics and writes all changes to disk.
func (d database) vacuumAndCheckpoint(ctx context.Context) error {
	if _, err := d.owner.ExecContext(ctx, `VACUUM ANALYZE license_slots, license_org, license_machines`); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	_, err := d.admin.ExecContext(ctx, `CHECKPOINT`)
	return err
}

// withPath returns the address of another database of the server.
func withPath(dsn, name string) (string, error) {
	address, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	address.Path = "/" + name
	return address.String(), nil
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
