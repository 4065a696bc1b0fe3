package proof_test

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/browser-svc/svc/cloud/internal/license"
)

// measured are the resources at an idle moment.
type measured struct {
	heap        uint64 // bytes in use after a collection
	goroutines  int
	connections int
	tables      []tableSize
	totals      license.Totals
}

type tableSize struct {
	Name    string `db:"name"`
	Rows    int64  `db:"rows"`
	Heap    int64  `db:"heap"`    // bytes
	Indexes int64  `db:"indexes"` // bytes
	Dead    int64  `db:"dead"`
	Vacuums int64  `db:"vacuums"`
}

const tableSizesSQL = `
SELECT relname AS name, n_live_tup AS rows, n_dead_tup AS dead, autovacuum_count AS vacuums,
	pg_table_size(relid) AS heap, pg_indexes_size(relid) AS indexes
FROM pg_stat_user_tables WHERE relname LIKE 'license%' ORDER BY relname`

// fillPools opens all connections of the pools, so that their number does not depend
// on the traffic.
func (s *soak) fillPools() {
	s.t.Helper()
	for _, pool := range s.pools {
		var all []*sql.Conn
		for range pool.Stats().MaxOpenConnections {
			conn, err := pool.Conn(context.Background())
			if err != nil {
				s.t.Fatal(err)
			}
			all = append(all, conn)
		}
		for _, conn := range all {
			if err := conn.Close(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func (s *soak) measure() measured {
	s.t.Helper()
	s.fillPools()
	time.Sleep(1200 * time.Millisecond) // refusals and statistics are written after a second
	var m measured
	if err := s.admin.Select(&m.tables, tableSizesSQL); err != nil {
		s.t.Fatal(err)
	}
	err := s.admin.Get(&m.connections, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`)
	if err != nil {
		s.t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	m.heap, m.goroutines = memory.HeapAlloc, runtime.NumGoroutine()
	for range 20 { // the minimum, because reapers and auditors keep running
		time.Sleep(10 * time.Millisecond)
		m.goroutines = min(m.goroutines, runtime.NumGoroutine())
	}
	for _, service := range s.replicas {
		t := service.Totals()
		m.totals.Refused += t.Refused
		m.totals.Lapsed += t.Lapsed
		m.totals.Omitted += t.Omitted
		m.totals.Adopted += t.Adopted
		m.totals.Duplicates += t.Duplicates
		m.totals.Repaired += t.Repaired
	}
	return m
}

const megabyte = 1 << 20

// table formats both measurements.
func table(before, after measured) string {
	var text strings.Builder
	row := func(what string, a, b any) { fmt.Fprintf(&text, "| %-34s | %12v | %12v |\n", what, a, b) }
	row("", "start", "end")
	row("heap in use, MB", fmt.Sprintf("%.2f", float64(before.heap)/megabyte), fmt.Sprintf("%.2f", float64(after.heap)/megabyte))
	row("goroutines", before.goroutines, after.goroutines)
	row("connections", before.connections, after.connections)
	row("slots lapsed", before.totals.Lapsed, after.totals.Lapsed)
	row("slots omitted", before.totals.Omitted, after.totals.Omitted)
	row("slots adopted", before.totals.Adopted, after.totals.Adopted)
	row("counters repaired", before.totals.Repaired, after.totals.Repaired)
	for i, b := range after.tables {
		a := before.tables[i]
		row(b.Name+": rows", a.Rows, b.Rows)
		row(b.Name+": table, kB", a.Heap/1024, b.Heap/1024)
		row(b.Name+": indexes, kB", a.Indexes/1024, b.Indexes/1024)
		row(b.Name+": dead rows", a.Dead, b.Dead)
		row(b.Name+": autovacuums", a.Vacuums, b.Vacuums)
	}
	return text.String()
}

// Size limits of the tables that are updated in place, for any duration.
const (
	mostHeapGrowth   = 4 * megabyte
	mostOrgBytes     = 1 * megabyte // ten rows
	mostMachineBytes = 4 * megabyte // two hundred rows; a busy server prunes late
)

// judge compares the measurement after the soak with that before.
func (s *soak) judge(before, after measured) {
	s.t.Helper()
	if after.heap > before.heap+mostHeapGrowth {
		s.t.Errorf("the heap grew from %d to %d bytes", before.heap, after.heap)
	}
	if after.goroutines > before.goroutines {
		s.t.Errorf("goroutines grew from %d to %d", before.goroutines, after.goroutines)
	}
	if after.connections != before.connections {
		s.t.Errorf("%d connections, and %d at the start", after.connections, before.connections)
	}
	if after.totals.Repaired != 0 || after.totals.Duplicates != 0 {
		s.t.Errorf("totals %+v, want no counter repaired and no machine taken for two", after.totals)
	}
	for _, size := range after.tables {
		most := map[string]int64{"license_org": mostOrgBytes, "license_machines": mostMachineBytes}[size.Name]
		if most > 0 && size.Heap+size.Indexes > most {
			s.t.Errorf("%s has grown to %d bytes", size.Name, size.Heap+size.Indexes)
		}
	}
	s.warnings.mu.Lock()
	defer s.warnings.mu.Unlock()
	for text, n := range s.warnings.texts {
		s.t.Errorf("logged %d times: %s", n, text)
	}
}
