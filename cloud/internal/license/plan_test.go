package license

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
)

// With a long history and few live rows, the frequent statements find their rows by an
// index, also with the generic plan of a prepared statement.
func TestPlans_HotStatementsReadNoHistory(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{MaxOpen: 1}) // PREPARE belongs to a connection
	org := uuid.Must(uuid.NewV7())
	for _, text := range []string{
		`INSERT INTO organizations (id, name, slug, created_at) VALUES ('ORG', 'Test', 'test', now())`,
		`INSERT INTO license_org (organization_id, max_slots, in_use) VALUES ('ORG', 100, 50)`,
		`INSERT INTO license_machines SELECT 'ORG', 'worker-' || i, gen_random_uuid(), '{}', 1, now() FROM generate_series(1, 1000) AS i`,
		`INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until, released_at, release_reason, ended_at, end_status, end_reason)
		SELECT gen_random_uuid(), 'ORG', gen_random_uuid(), gen_random_uuid(), 'worker-' || i % 10, gen_random_uuid(), 'released',
			gen_random_uuid(), 156, now(), now(), now(), now(), 'ended', now(), 'exited', 'unknown'
		FROM generate_series(1, 100000) AS i`,
		`INSERT INTO license_slots (id, organization_id, session_id, profile_id, machine_id, boot_id, state, launch_id, browser_version,
			reserved_at, started_at, lease_until)
		SELECT gen_random_uuid(), 'ORG', gen_random_uuid(), gen_random_uuid(), 'worker-' || i % 10, gen_random_uuid(), 'running',
			gen_random_uuid(), 156, now(), now(), now()
		FROM generate_series(1, 50) AS i`,
		`ANALYZE license_org, license_machines, license_slots`,
		`SET ROLE svc_all`, // as the service works, under row-level security
		`SET plan_cache_mode = force_generic_plan`,
	} {
		if _, err := db.Exec(strings.ReplaceAll(text, "ORG", org.String())); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	keys := new(apikey.Verifier)
	some := "'" + uuid.Must(uuid.NewV7()).String() + "'"
	list := "'{" + strings.Trim(some, "'") + "}'"
	orgArg := "'" + org.String() + "'"
	for name, test := range map[string]struct{ sql, args string }{
		"take":      {takeSQL, strings.Join([]string{orgArg, list, list, list, list, "'{worker-1}'", list, "120"}, ",")},
		"look":      {lookupSQL(keys), list + ",now()," + orgArg + "," + list},
		"validKeys": {keys.ValidSQL(), list + ",now()"},
		"renew":     {renewSQL, orgArg + "," + some + ",120"},
		"register":  {registerSQL, orgArg + ",'worker-1'," + some + ",0,300"},
		"lock":      {lockSQL, orgArg + "," + some},
		"run":       {startSlotSQL, orgArg + "," + some + "," + some + ",1," + some + ",156,now(),21600,null"},
		"takeOne":   {takeOneSQL, strings.Join([]string{orgArg, some, some, some, some, "'worker-1'", some, "120"}, ",")},
		"endOne":    {endOneSQL, strings.Join([]string{orgArg, some, some, "null", "'exited'", "'unknown'"}, ",")},
		"release":   {releaseSQL, orgArg + "," + list + "," + list + ",'{null}','{exited}','{unknown}'"},
		"withdraw":  {cancelSQL, orgArg + "," + list + "," + list + ",'{null}','{exited}','{unknown}'," + list},
		"withdraw1": {cancelOneSQL, strings.Join([]string{orgArg, some, some, "null", "'exited'", "'unknown'", some}, ",")},
		"undo":      {undoSQL, orgArg + "," + list + ",120"},
		"tombstone": {tombstoneSQL, strings.Join([]string{orgArg, list, list, list, "'{null}'", "'{exited}'", "'{unknown}'"}, ",")},
		"forget":    {deleteTombstonesSQL, orgArg + ",1000"},
		"refresh":   {refreshSQL, orgArg + ",'worker-1'," + some + "," + list + ",300,1"},
		"omits":     {hasOmittedSQL, orgArg + ",'worker-1'," + some + "," + list + ",300,1"},
		"fence":     {lockMachineSQL, orgArg + ",'worker-1'," + some + ",1"},
		"omit":      {releaseOmittedSQL, orgArg + ",'worker-1'," + some + "," + list + ",300,1," + list},
		"late":      {supersededBootSQL, orgArg + ",'worker-1'," + some + "," + list + ",300,1,10"},
		"duplicate": {duplicatesSQL, orgArg + ",300,500"},
		"timeline":  {timelineSQL + " AND id = $2", orgArg + "," + some},
		"session":   {timelineSQL + " AND session_id = $2", orgArg + "," + some},
		"refusals":  {sessionRefusalsSQL, orgArg + "," + some + ",100"},
		"machine":   {machinesSQL + " WHERE m.organization_id = $1 AND m.machine_id = $4", orgArg + ",120,300,'worker-1'"},
		"moments":   {momentsSQL, orgArg + "," + some + ",'lapsed',now(),900"},
		"adopt":     {adoptSQL, orgArg + ",'worker-1'," + some + "," + list + ",300"},
		"held":      {listedHeldSQL, orgArg + ",'worker-1'," + list},
		"lapsing":   {hasExpiredSQL, orgArg + ",false"},
		"expire":    {expireSQL, orgArg + ",500,false"},
		"orgs":      {expiredOrgsSQL, "1000"},
		"counts":    {countsSQL, orgArg},
		"running":   {runningSQL, orgArg + ",500"},
		"history":   {historySQL, orgArg + ",now() - interval '1 minute',now(),60,1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := db.Exec(fmt.Sprintf("PREPARE p_%s AS %s", name, test.sql)); err != nil {
				t.Fatal(err)
			}
			var lines []string
			if err := db.Select(&lines, fmt.Sprintf("EXPLAIN EXECUTE p_%s (%s)", name, test.args)); err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(lines, "\n")
			if regexp.MustCompile(`Seq Scan on (license_(slots|machines|events)|api_keys)`).MatchString(plan) {
				t.Errorf("full scan:\n%s", plan)
			}
		})
	}
}

// Statements that were planned for an empty table keep their plan until an analyze.
// The most frequent ones find each session by the index even then, on their pools.
func TestPlans_HotStatementsOfNewDatabaseReadNoHistory(t *testing.T) {
	db := dbtest.Open(t, dbtest.NewDSN(t), pg.Options{MaxOpen: 1, Role: pg.AllRole, PreferIndexes: true})
	keys := new(apikey.Verifier)
	some := "'" + uuid.Must(uuid.NewV7()).String() + "'"
	list := "'{" + strings.Trim(some, "'") + "}'"
	for name, test := range map[string]struct{ sql, args string }{
		"take":      {takeSQL, strings.Join([]string{some, list, list, list, list, "'{worker-1}'", list, "120"}, ",")},
		"takeOne":   {takeOneSQL, strings.Join([]string{some, some, some, some, some, "'worker-1'", some, "120"}, ",")},
		"look":      {lookupSQL(keys), list + ",now()," + some + "," + list},
		"validKeys": {keys.ValidSQL(), list + ",now()"},
		"endOne":    {endOneSQL, strings.Join([]string{some, some, some, "null", "'exited'", "'unknown'"}, ",")},
		"release":   {releaseSQL, some + "," + list + "," + list + ",'{null}','{exited}','{unknown}'"},
		"lock":      {lockSQL, some + "," + some},
		"withdraw":  {cancelSQL, some + "," + list + "," + list + ",'{null}','{exited}','{unknown}'," + list},
		"withdraw1": {cancelOneSQL, strings.Join([]string{some, some, some, "null", "'exited'", "'unknown'", some}, ",")},
		"renew":     {renewSQL, some + "," + some + ",120"},
		"run":       {startSlotSQL, some + "," + some + "," + some + ",1," + some + ",156,now(),21600,null"},
		"undo":      {undoSQL, some + "," + list + ",120"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := db.Exec(fmt.Sprintf("PREPARE y_%s AS %s", name, test.sql)); err != nil {
				t.Fatal(err)
			}
			var lines []string
			if err := db.Select(&lines, fmt.Sprintf("EXPLAIN EXECUTE y_%s (%s)", name, test.args)); err != nil {
				t.Fatal(err)
			}
			plan := strings.Join(lines, "\n")
			if regexp.MustCompile(`Seq Scan on (license_|api_keys)|using license_slots_(session|live).*\n *Index Cond: \(organization_id = \$1\)\n`).MatchString(plan) {
				t.Errorf("full scan of a table or organization:\n%s", plan)
			}
		})
	}
}

// A heartbeat and a start update no index: their new row versions stay on the page
// (heap-only tuples), which keeps them cheap.
func TestPlans_StartsAndHeartbeatsUpdateNoIndex(t *testing.T) {
	db := dbtest.New(t)
	var columns []string
	err := db.Select(&columns, `
		SELECT DISTINCT a.attname FROM pg_index i
		JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
			AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = d.refobjsubid
		WHERE i.indrelid = 'license_slots'::regclass
		UNION
		SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
		WHERE i.indrelid = 'license_slots'::regclass ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(columns, " "); got != "id machine_id organization_id released_at session_id" {
		t.Errorf("indexes depend on: %s", got)
	}
}
