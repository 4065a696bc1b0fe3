package webhook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	maxTargets   = 32              // the maximum number of endpoints to which a replica sends at once
	maxOfTenant  = 8               // the maximum number of endpoints of an organization that are leased at once
	concurrency  = 8               // the maximum number of requests to one endpoint at once
	sendBatch    = 32              // deliveries between two extensions of a lease
	dueWindow    = 4 * sendBatch   // due deliveries that are searched for a batch
	leaseTime    = 2 * time.Minute // longer than a batch, even if each request of it times out
	maxAttempts  = 10              // of a delivery, in about 27 hours
	recordTime   = 10 * time.Second
	lostInterval = 15 * time.Second // between searches for lost machines
	maxError     = 300              // characters of an error that are stored
	statusGone   = 410              // the endpoint does not want events any more
)

// failingTime is how long all attempts fail before an endpoint is disabled.
const failingTime = 5 * 24 * time.Hour

// pause returns the time between the n-th failed attempt and the next one.
func (o Options) pause(n int) time.Duration {
	pause := o.withDefaults().Backoff
	for range n - 1 {
		pause *= 3
	}
	return pause
}

// Run publishes events and sends them until ctx ends, and then waits briefly for requests
// in progress. Any number of replicas may run it concurrently; they share the work.
func (s *Service) Run(ctx context.Context) {
	d := &deliverer{Service: s, slots: make(chan struct{}, maxTargets)}
	defer d.sending.Wait()
	every, lastSearch := s.Options.withDefaults().Every, time.Time{}
	for ctx.Err() == nil {
		if time.Since(lastSearch) >= lostInterval {
			s.logFailure(ctx, s.findLostMachines(ctx))
			lastSearch = time.Now()
		}
		n, err := s.publish(ctx)
		s.logFailure(ctx, err)
		s.logFailure(ctx, s.notifyStreams(ctx))
		s.logFailure(ctx, d.startDue(ctx))
		pause := every
		switch {
		case err != nil:
			pause *= 10 // the database is probably unavailable
		case n == publishBatch:
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)): // so that replicas do not run in lockstep
		}
	}
}

func (s *Service) logFailure(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.Logger.ErrorContext(ctx, "failed to process events", "error", err)
	}
}

// deliverer sends deliveries to the endpoints that this replica has leased.
type deliverer struct {
	*Service
	slots   chan struct{}
	sending sync.WaitGroup
}

// claimSQL leases endpoints with due deliveries, first those to which nothing was sent for
// the longest time. It skips those that another replica is leasing. now() is the start of
// the statement; an index has no use for clock_timestamp(). LIMIT keeps the subquery from
// reading all due deliveries into a hash table.
const claimSQL = `
UPDATE webhook_endpoints SET lease_id = $1, lease_until = clock_timestamp() + make_interval(secs => $2)
WHERE id = ANY (ARRAY(
	SELECT w.id FROM webhook_endpoints w JOIN (
		SELECT c.id, row_number() OVER (PARTITION BY c.organization_id ORDER BY c.lease_until > now() DESC, c.lease_until, c.id) AS place
		FROM webhook_endpoints c WHERE c.lease_until > now() OR c.enabled AND c.paused_until <= now() AND (
			SELECT true FROM webhook_deliveries d WHERE d.endpoint_id = c.id AND d.state = 'pending' AND d.due_at <= now() LIMIT 1)
	) c ON c.id = w.id AND c.place <= $4
	WHERE w.enabled AND w.lease_until <= now() AND w.paused_until <= now()
	ORDER BY w.lease_until, random() LIMIT $3 FOR NO KEY UPDATE OF w SKIP LOCKED))
RETURNING id`

// startDue leases endpoints with due deliveries and starts to send to them.
func (d *deliverer) startDue(ctx context.Context) error {
	free := cap(d.slots) - len(d.slots)
	if free == 0 {
		return nil
	}
	lease := uuid.New()
	var ids []uuid.UUID
	if err := d.System.SelectContext(ctx, &ids, claimSQL, lease, leaseTime.Seconds(), free, maxOfTenant); err != nil {
		return fmt.Errorf("lease endpoints: %w", err)
	}
	for _, id := range ids {
		d.slots <- struct{}{}
		d.sending.Go(func() {
			defer func() { <-d.slots }()
			if err := d.deliver(ctx, id, lease); err != nil && ctx.Err() == nil {
				d.Logger.ErrorContext(ctx, "failed to send events", "error", err, "endpoint", id)
			}
		})
	}
	return nil
}

// renewSQL extends the lease of an enabled endpoint and reads it.
const renewSQL = `
UPDATE webhook_endpoints SET lease_until = clock_timestamp() + make_interval(secs => $3)
WHERE id = $1 AND lease_id = $2 AND enabled AND paused_until <= clock_timestamp() RETURNING ` + columns

// dueSQL reads the due deliveries to an endpoint, without those that wait for an earlier
// delivery of the same subject. It searches the first due ones only, and postpones those
// that wait until after the earlier one: so they are not due before it, and do not fill
// the next search. A search for the earlier one has the condition of the index of subjects:
// with another one, old statistics make the planner read all pending deliveries each time.
const dueSQL = `
WITH due AS MATERIALIZED (
	SELECT d.*, (
		SELECT earlier.due_at FROM webhook_deliveries earlier
		WHERE earlier.endpoint_id = $1 AND earlier.subject = d.subject AND earlier.position < d.position
			AND earlier.state NOT IN ('delivered', 'failed') ORDER BY earlier.position LIMIT 1) AS earlier_due_at
	FROM (
		SELECT w.id, w.attempts, w.subject, w.position, w.due_at, e.id AS event_id, e.organization_id, e.type, e.data, e.created_at
		FROM webhook_deliveries w JOIN events e ON e.id = w.event_id WHERE w.endpoint_id = $1 AND w.state = 'pending' AND w.due_at <= now()
		ORDER BY w.due_at LIMIT $3) d
), postponed AS (
	UPDATE webhook_deliveries w SET due_at = due.earlier_due_at + interval '1 microsecond' FROM due WHERE w.id = due.id AND due.earlier_due_at >= due.due_at
)
SELECT id, attempts, event_id, organization_id, type, data, created_at
FROM due WHERE earlier_due_at IS NULL ORDER BY due_at, position LIMIT $2`

// due is a delivery that can be sent.
type due struct {
	ID        uuid.UUID `db:"id"`
	Attempts  int       `db:"attempts"`
	EventID   uuid.UUID `db:"event_id"`
	OrgID     uuid.UUID `db:"organization_id"`
	Type      string    `db:"type"`
	Data      []byte    `db:"data"`
	CreatedAt time.Time `db:"created_at"`
}

func (q due) event() Event {
	return Event{ID: q.EventID, OrgID: q.OrgID, Type: q.Type, CreatedAt: q.CreatedAt, Data: q.Data}
}

// deliver sends the due deliveries to an endpoint, for Options.Turn, and ends the lease.
func (d *deliverer) deliver(ctx context.Context, id, lease uuid.UUID) error {
	defer d.release(ctx, id, lease)
	for started := time.Now(); ctx.Err() == nil; {
		var rows []row
		if err := d.System.SelectContext(ctx, &rows, renewSQL, id, lease, leaseTime.Seconds()); err != nil || len(rows) == 0 {
			return err
		}
		t, err := d.newTarget(rows[0])
		if err != nil {
			return errors.Join(err, d.pause(ctx, id))
		}
		var batch []due
		if err := d.System.SelectContext(ctx, &batch, dueSQL, id, sendBatch, dueWindow); err != nil || len(batch) == 0 {
			return err
		}
		if err := d.sendBatch(ctx, t, batch); err != nil || time.Since(started) >= d.Options.withDefaults().Turn {
			return err
		}
	}
	return nil
}

// pause pauses an endpoint whose secret cannot be decrypted: the operator must restore a
// key.
func (d *deliverer) pause(ctx context.Context, id uuid.UUID) error {
	_, err := d.System.ExecContext(ctx, `UPDATE webhook_endpoints SET paused_until = clock_timestamp() + interval '1 minute' WHERE id = $1`, id)
	return err
}

// release ends a lease now, so that the endpoint takes its turn after those that wait.
func (d *deliverer) release(ctx context.Context, id, lease uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	_, err := d.System.ExecContext(ctx, `UPDATE webhook_endpoints SET lease_until = clock_timestamp() WHERE id = $1 AND lease_id = $2`, id, lease)
	if err != nil {
		d.Logger.ErrorContext(ctx, "failed to end the lease of an endpoint", "error", err, "endpoint", id)
	}
}

// sendBatch sends deliveries concurrently, records the results, and then the state of the
// endpoint. A request that the end of ctx cuts off is not recorded: it is sent again.
func (d *deliverer) sendBatch(ctx context.Context, t target, batch []due) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(d.Options.withDefaults().Grace):
			cancel()
		case <-sending.Done():
		}
	})
	defer stop()
	var mu sync.Mutex
	var requests sync.WaitGroup
	summary, places := summary{}, make(chan struct{}, concurrency)
	for _, each := range batch {
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		requests.Go(func() {
			defer func() { <-places }()
			r := d.send(sending, t, each.event())
			if sending.Err() != nil {
				return
			}
			err := d.recordResult(ctx, each, r)
			mu.Lock()
			defer mu.Unlock()
			summary.add(r, err)
		})
	}
	requests.Wait()
	if summary.err != nil {
		return summary.err
	}
	return d.recordSummary(ctx, t, summary)
}

// summary is the summary of the results of a batch.
type summary struct {
	delivered, failed int
	gone              bool
	err               error // of recording a result
}

func (s *summary) add(r result, err error) {
	if r.err == nil {
		s.delivered++
	} else {
		s.failed++
	}
	s.gone = s.gone || r.status == statusGone
	if err != nil {
		s.err = err
	}
}

// recordResultSQL records an attempt, and makes the later deliveries of the same subject
// due with the next attempt, or now if there is none.
const recordResultSQL = `
WITH sent AS (
	UPDATE webhook_deliveries SET state = $2, attempts = attempts + 1, last_attempt_at = clock_timestamp(), last_status = NULLIF($3, 0),
		last_error = NULLIF($4, ''), last_duration_ms = $6, due_at = CASE WHEN $2 = 'pending' THEN clock_timestamp() + make_interval(secs => $5) ELSE due_at END
	WHERE id = $1 AND state = 'pending'
	RETURNING endpoint_id, subject, position, state, due_at
)
UPDATE webhook_deliveries later SET due_at = CASE WHEN sent.state = 'pending' THEN sent.due_at ELSE clock_timestamp() END
FROM sent
WHERE later.endpoint_id = sent.endpoint_id AND later.subject = sent.subject AND later.position > sent.position AND later.state NOT IN ('delivered', 'failed')
	AND later.attempts = 0 AND (sent.state = 'pending' OR later.due_at > clock_timestamp())`

func (d *deliverer) recordResult(ctx context.Context, q due, r result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	state, reason, pause := Delivered, "", time.Duration(0)
	if r.err != nil {
		state, reason, pause = Pending, shorten(r.err.Error()), d.Options.pause(q.Attempts+1)
		if q.Attempts+1 >= maxAttempts {
			state = Failed
		}
	}
	if _, err := d.System.ExecContext(ctx, recordResultSQL, q.ID, state, r.status, reason, pause.Seconds(), r.duration.Milliseconds()); err != nil {
		return fmt.Errorf("record an attempt: %w", err)
	}
	return nil
}

// recordSummarySQL records whether the endpoint works, unless its URL was changed
// meanwhile. If all requests of a batch failed, the endpoint is paused for a quarter of
// the time for which it has been failing, up to five minutes.
const recordSummarySQL = `
UPDATE webhook_endpoints w SET failing_since = f.since,
	paused_until = CASE WHEN f.since IS NULL THEN '-infinity'
		ELSE f.now + LEAST(interval '5 minutes', GREATEST(make_interval(secs => $5), (f.now - f.since) / 4)) END,
	enabled = w.enabled AND f.reason IS NULL, disabled_reason = CASE WHEN w.enabled THEN f.reason ELSE w.disabled_reason END
FROM (
	SELECT id, now, since, CASE WHEN $3 THEN 'gone' WHEN since <= now - make_interval(secs => $4) THEN 'failing' END AS reason
	FROM (SELECT id, clock_timestamp() AS now, CASE WHEN $2 THEN COALESCE(failing_since, clock_timestamp()) END AS since
		FROM webhook_endpoints WHERE id = $1 AND url = $6) s
) f
WHERE w.id = f.id AND (f.since IS NOT NULL OR f.reason IS NOT NULL OR w.failing_since IS NOT NULL)
RETURNING COALESCE(CASE WHEN NOT w.enabled THEN w.disabled_reason END, '')`

func (d *deliverer) recordSummary(ctx context.Context, t target, s summary) error {
	if s.delivered+s.failed == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	var disabled []string
	err := d.System.SelectContext(ctx, &disabled, recordSummarySQL, t.ID, s.delivered == 0, s.gone, failingTime.Seconds(),
		min(time.Second, d.Options.withDefaults().Backoff).Seconds(), t.URL)
	if err != nil {
		return fmt.Errorf("record the state of an endpoint: %w", err)
	}
	if len(disabled) > 0 && disabled[0] != "" {
		d.Logger.WarnContext(ctx, "webhook endpoint disabled", "endpoint", t.ID, "org", t.OrganizationID, "reason", disabled[0])
	}
	return nil
}

func shorten(reason string) string {
	characters := []rune(strings.ToValidUTF8(strings.ReplaceAll(reason, "\x00", ""), "?"))
	return string(characters[:min(len(characters), maxError)])
}
