package license_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/db/dbtest"
)

// roundTripCounter counts the messages to the server, each of which is answered before
// the next.
type roundTripCounter struct {
	net.Dialer
	n atomic.Int64
}

func (t *roundTripCounter) Dial(network, address string) (net.Conn, error) {
	return t.DialContext(context.Background(), network, address)
}

func (t *roundTripCounter) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return t.DialContext(ctx, network, address)
}

func (t *roundTripCounter) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.Dialer.DialContext(ctx, network, address)
	return countingConn{conn, &t.n}, err
}

type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

func TestHeartbeat_IsOneRoundTrip(t *testing.T) {
	config, err := pq.NewConfig(dbtest.NewDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	config.BinaryParameters = true
	connector, err := pq.NewConnectorConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	trips := &roundTripCounter{}
	connector.Dialer(trips)
	db := sqlx.NewDb(sql.OpenDB(connector), "postgres")
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	s, err := license.New(t.Context(), db, feedObserver{}, slog.New(slog.DiscardHandler), license.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := newFleet(t, db, 1000)
	for seq := range int64(3) {
		before := trips.n.Load()
		result, err := s.Heartbeat(t.Context(), license.HeartbeatReport{
			OrgID: f.org, MachineID: "worker-1", BootID: f.boot, Seq: seq, Sessions: f.sessions,
		})
		if err != nil || len(result.Accepted) != 1000 {
			t.Fatalf("%d accepted, %v", len(result.Accepted), err)
		}
		if n := trips.n.Load() - before; n != 1 {
			t.Errorf("heartbeat %d took %d round trips", seq, n)
		}
	}
}

func TestHeartbeat_RetriesAfterDeadlock(t *testing.T) {
	h := newFixture(t, 5)
	a, b := h.start(), h.start()
	h.causeDeadlock(a, b, func() {
		assertResult(t, h.mustHeartbeat(h.heartbeat(a, b)), license.HeartbeatResult{Applied: true, Accepted: ids(a, b)})
	})
}

func TestHeartbeat_OfReplacedBootRetriesAfterDeadlock(t *testing.T) {
	w := newProvenDuplicates(t)
	a, b := w.sessions[0], w.sessions[1]
	w.causeDeadlock(a, b, func() {
		got := w.mustHeartbeat(w.heartbeatOf(0, a, b))
		assertResult(t, got, license.HeartbeatResult{Applied: true, Accepted: ids(a, b)})
	})
}

// causeDeadlock locks two sessions in another order than the heartbeat that changes
// them, until PostgreSQL aborts the heartbeat.
func (h *fixture) causeDeadlock(a, b uuid.UUID, heartbeat func()) {
	h.t.Helper()
	const lock = `SELECT FROM license_slots WHERE session_id = $1 FOR UPDATE`
	for range 8 {
		other, err := h.db.Beginx()
		if err != nil {
			h.t.Fatal(err)
		}
		other.MustExec(lock, b)
		var group sync.WaitGroup
		group.Go(heartbeat)
		eventually(h.t, func() bool { // the heartbeat detects the deadlock first
			return query[bool](h, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
				AND wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '300 milliseconds')`)
		})
		crossed := query[int](h, `SELECT count(*) FROM (SELECT FROM license_slots WHERE session_id = $1 FOR UPDATE SKIP LOCKED) free`, a) == 0
		_, chosen := other.Exec(lock, a)
		other.Rollback()
		group.Wait()
		if crossed && chosen == nil {
			return
		}
		if !crossed {
			a, b = b, a
		}
	}
	h.t.Error("the heartbeat was never the aborted transaction")
}
