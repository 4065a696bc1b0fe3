package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/shared/benchresult"
)

// licenseBench is one run of make bench-license: it measures the license accounting of svc-cloud over
// HTTP, and compares it with its bare statements on the same PostgreSQL.
type licenseBench struct {
	*environment
	options
	database
	duration time.Duration // of one measurement
}

func (b *licenseBench) parts() benchresult.Parts {
	return benchresult.Parts{
		{Name: "hot", What: "one hot organization, compared with plain prepared statements", Measure: b.hot},
		{Name: "many", What: "1,000 organizations, compared with plain prepared statements", Measure: b.many},
		{Name: "uncontended", What: "a single client, and the minimum cost of a durable pair", Measure: b.uncontended},
		{Name: "refusals", What: "refusals", Measure: b.refusals},
		{Name: "history", What: "authorize with 100,000 live and 1,000,000 ended slots", Measure: b.history},
		{Name: "heartbeats", What: "heartbeats, compared with their bare statement", Measure: b.heartbeats},
		{Name: "machines", What: "the number of machines that one cloud supports", Measure: b.machines},
	}
}

// licenseNotes explain the table.
const licenseNotes = `PostgreSQL, svc-cloud and the client share the cores. A pair is an authorize call and the end of the session, each over
HTTP. The plain statements check the limit, count and write the slot, and nothing else: no HTTP, no key, no profile, no
history. A machine's heartbeat is measured from the time when it was due.
`

func runLicense(ctx context.Context, o options) (err error) {
	b := &licenseBench{options: o, duration: 600 * time.Millisecond}
	b.rounds = min(b.rounds, 7)
	if o.quick {
		b.duration = 200 * time.Millisecond
	}
	if err := b.parts().Check(o.only); err != nil {
		return err
	}
	if b.environment, err = newEnvironment(ctx, "a cloud"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.environment.close()) }()
	if b.database, err = b.openDatabase(ctx, b.postgres.DSN()); err != nil {
		return err
	}
	defer func() { err = errors.Join(b.database.close(), err) }()
	var version string
	if err := b.admin.GetContext(ctx, &version, `SELECT split_part(current_setting('server_version'), ' ', 1)`); err != nil {
		return err
	}
	if err := b.fillWAL(ctx); err != nil {
		return err
	}
	parts := b.parts()
	for i, part := range parts {
		parts[i].Measure = func(ctx context.Context) ([]benchresult.Row, error) {
			rows, err := part.Measure(ctx)
			if err != nil {
				return nil, err
			}
			return rows, b.clear(ctx)
		}
	}
	return b.report(ctx, benchresult.Report{
		Title: "License accounting", Command: "make bench-license", On: []string{"PostgreSQL " + version}, Rounds: b.rounds, Notes: licenseNotes,
	}, parts)
}

// requestSide is a side whose clients send requests to the cloud, each as fast as it can. send
// sends one or more requests of a client over its connection.
func (b *licenseBench) requestSide(ctx context.Context, clients int, send func(c *conn, client int) error) (loadSide, func(), error) {
	conns, closeAll, err := connect(ctx, b.cloud.host(), clients)
	if err != nil {
		return nil, nil, err
	}
	return b.cloud.withCPU(func(ctx context.Context) (load, error) {
		return runClients(ctx, clients, b.duration, func(_ context.Context, client int) error { return send(conns[client], client) })
	}), closeAll, nil
}

// pairs is the side whose clients reserve and release slots of the tenants that pick returns.
func (b *licenseBench) pairs(ctx context.Context, clients int, pick func(client, i int) tenant) (loadSide, func(), error) {
	next := make([]int, clients)
	return b.requestSide(ctx, clients, func(c *conn, client int) error {
		next[client]++
		t, session := pick(client, next[client]), newID()
		if err := c.expect(http.StatusOK, t.authorize(session)); err != nil {
			return err
		}
		return c.expect(http.StatusOK, request(http.MethodDelete, fmt.Sprintf("/v1/profiles/%s/sessions/%s", t.Profile, session), t.Key, nil))
	})
}

// The same pair without svc-cloud: two prepared statements that check the limit and count.
const (
	plainTakeSQL = `
WITH counted AS (
	UPDATE license_org SET in_use = in_use + 1 WHERE organization_id = $1 AND (max_slots IS NULL OR in_use < max_slots)
	RETURNING in_use
)
INSERT INTO license_slots (id, organization_id, session_id, profile_id, key_id, machine_id, boot_id, state, reserved_at, lease_until)
SELECT $2, $1, $3, $4, $1, 'worker-1', $1, 'reserved', now(), now() + interval '2 minutes' FROM counted`
	plainEndSQL = `
WITH ended AS (
	UPDATE license_slots SET state = 'released', released_at = now(), release_reason = 'ended', ended_at = now(),
		end_status = 'exited', end_reason = 'unknown'
	WHERE organization_id = $1 AND session_id = $2 AND released_at IS NULL
	RETURNING id
)
UPDATE license_org SET in_use = in_use - 1 WHERE organization_id = $1 AND EXISTS (SELECT FROM ended)`
)

// statementPairs is the side whose clients run two prepared statements in turn: the first takes a slot
// with the parameters organization, slot, session and profile, the second releases it with organization
// and session.
func (b *licenseBench) statementPairs(ctx context.Context, take, end string, clients int, pick func(client, i int) tenant) (loadSide, func(), error) {
	var statements [2]*sqlx.Stmt
	for i, text := range []string{take, end} {
		statement, err := b.pool.PreparexContext(ctx, text)
		if err != nil {
			return nil, nil, err
		}
		statements[i] = statement
	}
	next := make([]int, clients)
	return func(ctx context.Context) (load, error) {
		return runClients(ctx, clients, b.duration, func(ctx context.Context, client int) error {
			next[client]++
			t, session := pick(client, next[client]), newID()
			if _, err := statements[0].ExecContext(ctx, t.Org, newID(), session, t.Profile); err != nil {
				return err
			}
			_, err := statements[1].ExecContext(ctx, t.Org, session)
			return err
		})
	}, func() { _, _ = statements[0].Close(), statements[1].Close() }, nil
}

const plainStatements = "plain prepared statements"

// comparePairs measures pairs over HTTP and by plain statements, alternately.
func (b *licenseBench) comparePairs(ctx context.Context, clients int, ours, theirs func(client, i int) tenant) ([][]load, error) {
	measure, closeAll, err := b.pairs(ctx, clients, ours)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	plain, closePlain, err := b.statementPairs(ctx, plainTakeSQL, plainEndSQL, clients, theirs)
	if err != nil {
		return nil, err
	}
	defer closePlain()
	return benchresult.Interleave(ctx, b.rounds, measure, plain)
}

// only returns a function that always picks the same tenant.
func only(t tenant) func(client, i int) tenant { return func(int, int) tenant { return t } }

// hot reserves and releases slots in one organization.
func (b *licenseBench) hot(ctx context.Context) (rows []benchresult.Row, err error) {
	for _, clients := range []int{32, 256} {
		tenants, err := b.tenants(ctx, 2, 1000)
		if err != nil {
			return nil, err
		}
		all, err := b.comparePairs(ctx, clients, only(tenants[0]), only(tenants[1]))
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("one hot organization, %d clients: ", clients)
		rows = append(rows,
			row(what+"reserve and release", "pairs/s", all, rate, plainStatements),
			row(what+"p99 of a pair", "ms", all, p99, plainStatements),
			benchresult.Row{What: what + "CPU of a pair", Unit: "µs", Ours: benchresult.Median(all[0], cpuMicros)})
	}
	return rows, nil
}

// many uses so many organizations that requests are rarely batched.
func (b *licenseBench) many(ctx context.Context) (rows []benchresult.Row, err error) {
	tenants, err := b.tenants(ctx, 1000, 1000)
	if err != nil {
		return nil, err
	}
	pick := func(client, i int) tenant { return tenants[(client*7919+i*31)%len(tenants)] }
	for _, clients := range []int{8, 32} {
		all, err := b.comparePairs(ctx, clients, pick, pick)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row(fmt.Sprintf("1,000 organizations, %d clients: reserve and release", clients), "pairs/s", all, rate, plainStatements))
	}
	return rows, nil
}

// refusals measures an organization at its limit.
func (b *licenseBench) refusals(ctx context.Context) ([]benchresult.Row, error) {
	const limit = 10
	tenants, err := b.tenants(ctx, 1, limit)
	if err != nil {
		return nil, err
	}
	if _, err := b.runSessions(ctx, tenants[0], newID(), limit); err != nil {
		return nil, err
	}
	measure, closeAll, err := b.requestSide(ctx, 64, func(c *conn, _ int) error {
		return c.expect(http.StatusPaymentRequired, tenants[0].authorize(newID()))
	})
	if err != nil {
		return nil, err
	}
	defer closeAll()
	all, err := benchresult.Interleave(ctx, b.rounds, measure)
	if err != nil {
		return nil, err
	}
	const what = "a full organization, 64 clients: "
	return []benchresult.Row{
		row(what+"refused", "1/s", all, rate, ""), row(what+"p99", "ms", all, p99, ""), row(what+"CPU of a refusal", "µs", all, cpuMicros, ""),
	}, nil
}

// row returns a row of the medians of the first side, compared with the second if there is one.
func row(what, unit string, all [][]load, figure func(load) float64, than string) benchresult.Row {
	r := benchresult.Row{What: what, Unit: unit, Ours: benchresult.Median(all[0], figure)}
	if len(all) > 1 {
		r.Other, r.Than = benchresult.Median(all[1], figure), than
	}
	return r
}

// authorize returns an authorize request for a new session.
func (t tenant) authorize(session uuid.UUID) []byte {
	body := make([]byte, 0, 256)
	body = fmt.Appendf(body, `{"machineId":"worker-1","bootId":%q,"sessionId":%q,"profileId":%q}`, t.Org, session, t.Profile)
	return request(http.MethodPost, "/v1/license/authorize", t.Key, slices.Clip(body))
}
