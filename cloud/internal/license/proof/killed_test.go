package proof_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/testenv"
)

const (
	clients    = 12 // of three replicas
	limitThere = 40

	underWay  = 300 * time.Millisecond // how long calls run at least before the database is killed
	minGrants = 20                     // acknowledged before the database is killed
	minEnds   = 10
)

// killCount is how often the database is killed.
func killCount() int { return testenv.Depth(2, 5) }

// acknowledgedCalls are the calls that clients got an answer to.
type acknowledgedCalls struct {
	mu               sync.Mutex
	granted, ended   map[uuid.UUID]bool // acknowledged
	pending          map[uuid.UUID]bool // an end that may have taken effect
	grants, failures int
}

// A killed database keeps every acknowledged grant and end, and a matching counter
// (DESIGN 6: synchronous commit stays on).
func TestDatabaseKill_LosesNoAcknowledgedCall(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // root's server runs as another user
		t.Fatal(err)
	}
	org := uuid.Must(uuid.NewV7())
	acknowledged := &acknowledgedCalls{granted: map[uuid.UUID]bool{}, ended: map[uuid.UUID]bool{}, pending: map[uuid.UUID]bool{}}
	for death := range killCount() {
		server, err := embedded.Start(t.Context(), embedded.Options{DataDir: filepath.Join(dir, "data")})
		if err != nil {
			t.Fatal(err)
		}
		if death == 0 {
			createOrganization(t, server.DSN(), org)
		}
		acknowledged.compare(t, server.DSN(), org)
		acknowledged.traffic(t, server, org)
	}
	server, err := embedded.Start(t.Context(), embedded.Options{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(context.Background())
	acknowledged.compare(t, server.DSN(), org)
	t.Logf("killed %d times: %d grants and %d ends acknowledged, %d calls failed, none lost", killCount(), acknowledged.grants, len(acknowledged.ended), acknowledged.failures)
	if acknowledged.grants < killCount()*minGrants || len(acknowledged.ended) < killCount()*minEnds || acknowledged.failures < killCount() {
		t.Error("too few calls")
	}
}

func createOrganization(t *testing.T, dsn string, org uuid.UUID) {
	t.Helper()
	owner := openAt(t, dsn, pg.Options{})
	defer owner.Close()
	if err := db.Migrate(t.Context(), owner.DB, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	owner.MustExec(`CREATE TABLE feed (organization_id uuid, session_id uuid, running boolean NOT NULL, reason text, PRIMARY KEY (organization_id, session_id))`)
	owner.MustExec(`CREATE TABLE made (organization_id uuid, id uuid, away boolean NOT NULL DEFAULT false, PRIMARY KEY (organization_id, id))`)
	owner.MustExec(`INSERT INTO organizations (id, name, slug, created_at) VALUES ($1, 'Test', 'test', now())`, org)
	owner.MustExec(`INSERT INTO license_org (organization_id, max_slots) VALUES ($1, $2)`, org, limitThere)
}

func openAt(t *testing.T, dsn string, opts pg.Options) *sqlx.DB {
	t.Helper()
	pool, err := pg.Open(t.Context(), dsn, opts)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// traffic runs calls, and kills the server among them.
func (l *acknowledgedCalls) traffic(t *testing.T, server *embedded.Server, org uuid.UUID) {
	t.Helper()
	var services []*license.Service
	for range replicas {
		pool := openAt(t, server.DSN(), pg.Options{Role: pg.AllRole, MaxOpen: 5})
		defer pool.Close()
		service, err := license.New(t.Context(), pool, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		services = append(services, service)
	}
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for l.call(t, services[i%replicas], org) {
			}
		})
	}
	left := make(chan struct{})
	go func() { group.Wait(); close(left) }()
	l.await(left)
	syscall.Kill(server.Pid(), syscall.SIGKILL)
	<-left
	server.Stop(context.Background())
}

// await waits until calls have been acknowledged for a while, or all clients have left.
func (l *acknowledgedCalls) await(left <-chan struct{}) {
	counts := func() (grants, ends int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.grants, len(l.ended)
	}
	began := time.Now()
	granted, ended := counts()
	for {
		select {
		case <-left:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if grants, ends := counts(); time.Since(began) > underWay && grants >= granted+minGrants && ends >= ended+minEnds {
			return
		}
	}
}

// call takes a slot, and releases it three times out of four. It returns false after
// the first failure.
func (l *acknowledgedCalls) call(t *testing.T, s *license.Service, org uuid.UUID) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	session, profile := uuid.Must(uuid.NewV7()), org
	grant, err := s.Authorize(ctx, license.Request{
		OrgID: org, MachineID: "worker-1", BootID: org, SessionID: session, ProfileID: &profile,
	})
	switch {
	case err != nil:
		return l.failed()
	case !grant.Allowed:
		session = l.any()
	default:
		l.mu.Lock()
		l.granted[session] = true
		l.grants++
		keep := l.grants%4 == 0
		l.mu.Unlock()
		if keep {
			return true
		}
	}
	l.mu.Lock()
	l.pending[session] = true
	l.mu.Unlock()
	if _, err := s.End(ctx, license.EndReport{OrgID: org, ProfileID: profile, SessionID: session}); err != nil {
		return l.failed()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[session] = true
	return true
}

func (l *acknowledgedCalls) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	return false
}

// any returns a session that holds a slot as far as is known, or a new one.
func (l *acknowledgedCalls) any() uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	for session := range l.granted {
		if !l.pending[session] {
			return session
		}
	}
	return uuid.Must(uuid.NewV7())
}

// compare compares the tables after recovery with the acknowledged calls.
func (l *acknowledgedCalls) compare(t *testing.T, dsn string, org uuid.UUID) {
	t.Helper()
	pool := openAt(t, dsn, pg.Options{Role: pg.AllRole})
	defer pool.Close()
	var slots []struct {
		Session uuid.UUID `db:"session_id"`
		State   string
	}
	if err := pool.SelectContext(t.Context(), &slots, `SELECT session_id, state FROM license_slots WHERE organization_id = $1`, org); err != nil {
		t.Fatal(err)
	}
	state, live := map[uuid.UUID]string{}, 0
	for _, s := range slots {
		state[s.Session] = s.State
		if s.State != "released" {
			live++
		}
	}
	for session := range l.granted {
		if state[session] == "" || !l.pending[session] && state[session] != "reserved" {
			t.Errorf("an acknowledged grant is lost: %s is %q", session, state[session])
		}
	}
	for session := range l.ended {
		if state[session] != "released" {
			t.Errorf("an acknowledged end is lost: %s is %q", session, state[session])
		}
	}
	var counted int
	if err := pool.GetContext(t.Context(), &counted, `SELECT in_use FROM license_org WHERE organization_id = $1`, org); err != nil {
		t.Fatal(err)
	}
	if counted != live || live > limitThere {
		t.Errorf("%s", fmt.Sprintf("%d counted, %d live, %d allowed", counted, live, limitThere))
	}
}
