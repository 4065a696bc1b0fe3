package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

const (
	maxStreams = 20                 // of an organization on one replica
	streamPage = 100                // events that a stream reads at once
	readerTime = 3 * 24 * time.Hour // how long events are recorded after a stream was opened
)

// Stream reads the events of an organization, in their order. It keeps only its position,
// so a slow client needs no memory.
type Stream struct {
	service  *Service
	orgID    uuid.UUID
	position int64
	changed  chan struct{}
}

// recordReaderSQL records that the organization reads its events. After a time in which
// they were not recorded, recorded_since is the end of the gap.
const recordReaderSQL = `
INSERT INTO event_readers AS r (organization_id, read_until, recorded_since)
VALUES ($1, clock_timestamp() + make_interval(secs => $2), clock_timestamp())
ON CONFLICT (organization_id) DO UPDATE SET read_until = excluded.read_until,
	recorded_since = CASE WHEN r.read_until <= excluded.recorded_since THEN excluded.recorded_since ELSE r.recorded_since END
WHERE r.read_until < excluded.read_until - interval '1 hour'`

// OpenStream opens a stream of the events after one that the client has received; nil for
// those that happen from now on. The caller closes it. From then on, the events of the
// organization are recorded for readerTime, so that the client can continue. Errors:
// NotFound if the event is not stored, or not all events since then were recorded, and
// RateLimited at the limit of open streams.
func (s *Service) OpenStream(ctx context.Context, orgID uuid.UUID, after *uuid.UUID) (*Stream, error) {
	stream := &Stream{service: s, orgID: orgID, changed: make(chan struct{}, 1)}
	if err := s.streams.add(stream); err != nil {
		return nil, err
	}
	err := pg.InOrg(ctx, s.DB, orgID, func(tx *sqlx.Tx) (err error) {
		if _, err = tx.ExecContext(ctx, recordReaderSQL, orgID, readerTime.Seconds()); err != nil {
			return fmt.Errorf("record the reader of a stream: %w", err)
		}
		if after == nil {
			stream.position, err = lastPosition(ctx, tx, orgID)
			return err
		}
		err = tx.GetContext(ctx, &stream.position, `SELECT position FROM events
			WHERE organization_id = $1 AND id = $2 AND position IS NOT NULL AND NOT is_test
				AND created_at >= (SELECT recorded_since FROM event_readers WHERE organization_id = $1)`, orgID, *after)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.NotFound, "The event is not stored any more. Later events may be missing: open the stream without Last-Event-ID.",
				fault.Detail{Field: "Last-Event-ID", Code: fault.ResourceNotFound, Message: "is not a stored event", Received: after.String()})
		}
		return err
	})
	if err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// Close closes the stream.
func (st *Stream) Close() { st.service.streams.remove(st) }

// NextCheck returns when the client, last checked at a time, has to be checked again.
func (st *Stream) NextCheck(last time.Time) time.Time {
	return last.Add(st.service.Options.withDefaults().Check)
}

// wake makes Next read again.
func (st *Stream) wake() {
	select {
	case st.changed <- struct{}{}:
	default:
	}
}

// Next returns the next events. It waits for them until ctx ends, then it returns none.
// It returns io.EOF when the program shuts down.
func (st *Stream) Next(ctx context.Context) ([]Event, error) {
	for {
		if st.service.streams.isStopped() {
			return nil, io.EOF
		}
		events, err := st.read(context.WithoutCancel(ctx))
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-st.changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

func (st *Stream) read(ctx context.Context) ([]Event, error) {
	var rows []struct {
		ID        uuid.UUID `db:"id"`
		Type      string    `db:"type"`
		Data      []byte    `db:"data"`
		CreatedAt time.Time `db:"created_at"`
		Position  int64     `db:"position"`
	}
	err := pg.InOrg(ctx, st.service.DB, st.orgID, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, `SELECT id, type, data, created_at, position FROM events
			WHERE organization_id = $1 AND position > $2 AND NOT is_test ORDER BY position LIMIT $3`, st.orgID, st.position, streamPage)
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of a stream: %w", err)
	}
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = Event{ID: r.ID, OrgID: st.orgID, Type: r.Type, CreatedAt: r.CreatedAt, Data: r.Data}
		st.position = r.Position
	}
	return events, nil
}

// StopStreams ends all streams: their clients continue on another replica.
func (s *Service) StopStreams() {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	s.streams.stopped = true
	for _, streams := range s.streams.open {
		for stream := range streams {
			stream.wake()
		}
	}
}

func (s *streams) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *streams) add(stream *Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open[stream.orgID]) >= maxStreams {
		refused := fault.New(fault.RateLimited, fmt.Sprintf("The organization has %d open streams. Close one first.", maxStreams))
		refused.RetryAfter = time.Minute
		return refused
	}
	if s.open == nil {
		s.open = map[uuid.UUID]map[*Stream]struct{}{}
	}
	if s.open[stream.orgID] == nil {
		s.open[stream.orgID] = map[*Stream]struct{}{}
	}
	s.open[stream.orgID][stream] = struct{}{}
	return nil
}

func (s *streams) remove(stream *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open[stream.orgID], stream)
	if len(s.open[stream.orgID]) == 0 {
		delete(s.open, stream.orgID)
	}
}
