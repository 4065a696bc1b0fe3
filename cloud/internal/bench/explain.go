package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// explained writes what the database did during the last measurement of a side into a
// file of the profile directory: its statements and wait events.
func (b *bench) explained(name string, measure side) side {
	return func(ctx context.Context) (load, error) {
		for _, statement := range []string{`CREATE EXTENSION IF NOT EXISTS pg_stat_statements`, `SELECT pg_stat_statements_reset()`} {
			if _, err := b.admin.ExecContext(ctx, statement); err != nil {
				return load{}, fmt.Errorf("pg_stat_statements: %w", err)
			}
		}
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		seen, failed := map[string]int{}, error(nil)
		watch.Go(func() { failed = b.sampleWaits(watching, seen) })
		l, err := measure(ctx)
		stop()
		watch.Wait()
		if err := errors.Join(err, failed); err != nil {
			return l, err
		}
		statements, err := b.statements(ctx)
		if err != nil {
			return l, err
		}
		text := fmt.Sprintf("%s: %.0f/s, p99 %.2f ms\n\n%s\n%s", name, l.perSecond, p99(l), formatWaits(seen), statements)
		return l, os.WriteFile(filepath.Join(b.profiles, name+".txt"), []byte(text), 0o644)
	}
}

const sampleInterval = 10 * time.Millisecond

// sampleWaits samples the wait events of the database's active sessions until ctx
// ends.
func (b *bench) sampleWaits(ctx context.Context, seen map[string]int) error {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		var events []string
		err := b.admin.SelectContext(ctx, &events, `
			SELECT application_name || ', ' || state || ': ' || COALESCE(wait_event_type || ' ' || wait_event, 'running')
			FROM pg_stat_activity WHERE datname = 'svc' AND state <> 'idle'`)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read pg_stat_activity: %w", err)
		}
		seen["looks"]++
		for _, event := range events {
			seen[event]++
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// formatWaits returns the average number of sessions by wait event, highest first.
func formatWaits(seen map[string]int) string {
	looks := max(seen["looks"], 1)
	delete(seen, "looks")
	var b strings.Builder
	fmt.Fprintf(&b, "Sessions of the database at a time, of %d looks:\n", looks)
	names := slices.SortedFunc(maps.Keys(seen), func(a, b string) int { return seen[b] - seen[a] })
	for _, name := range names {
		fmt.Fprintf(&b, "%8.2f  %s\n", float64(seen[name])/float64(looks), name)
	}
	return b.String()
}

// statements returns the statements that took the most time, and the WAL that they
// wrote.
func (b *bench) statements(ctx context.Context) (string, error) {
	var all []struct {
		Calls int     `db:"calls"`
		Rows  int     `db:"rows"`
		Total float64 `db:"total"` // in milliseconds, like Mean
		Mean  float64 `db:"mean"`
		Bytes float64 `db:"wal"`
		Text  string  `db:"query"`
	}
	err := b.admin.SelectContext(ctx, &all, `
		SELECT calls, rows, total_exec_time AS total, mean_exec_time AS mean, wal_bytes::float8 AS wal, query
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = 'svc' ORDER BY total_exec_time DESC LIMIT 15`)
	if err != nil {
		return "", fmt.Errorf("read pg_stat_statements: %w", err)
	}
	var text strings.Builder
	text.WriteString("   total ms    calls  mean ms     rows   WAL kB  statement\n")
	for _, s := range all {
		query := strings.Join(strings.Fields(s.Text), " ")
		fmt.Fprintf(&text, "%11.1f %8d %8.3f %8d %8.0f  %.150s\n", s.Total, s.Calls, s.Mean, s.Rows, s.Bytes/1024, query)
	}
	return text.String(), nil
}
