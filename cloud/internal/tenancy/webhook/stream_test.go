package webhook

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// readEvents reads n events of a stream.
func (f *fixture) readEvents(s *Stream, n int) (events []Event) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for len(events) < n {
		next, err := s.Next(ctx)
		f.must(err)
		if ctx.Err() != nil {
			f.t.Fatalf("got %d events of %d", len(events), n)
		}
		events = append(events, next...)
	}
	return events
}

func (f *fixture) openStream(org uuid.UUID, after *uuid.UUID) *Stream {
	f.t.Helper()
	s, err := f.OpenStream(f.t.Context(), org, after)
	f.must(err)
	f.t.Cleanup(s.Close)
	return s
}

func TestStream_ContinuesAfterTheLastEvent(t *testing.T) {
	f := newFixture(t)
	other := f.tenant()
	f.openStream(other, nil)
	live := f.openStream(f.org, nil)
	f.run()
	f.changes(other)
	f.changes(f.org)
	all := f.readEvents(live, len(Types))
	var types []string
	for _, e := range all {
		types = append(types, e.Type)
	}
	if !slices.Equal(types, Types) || all[0].OrgID != f.org {
		t.Errorf("got %v", types)
	}
	rest := f.readEvents(f.openStream(f.org, &all[2].ID), len(Types)-3)
	if len(rest) != len(Types)-3 || rest[0].ID != all[3].ID {
		t.Errorf("got %d events, the first is %+v", len(rest), rest[0])
	}
	fromNow := f.openStream(f.org, nil)
	e, _ := f.endpoint("https://hooks.example.com")
	_, err := f.SendTest(t.Context(), f.org, e.ID)
	f.must(err)
	f.startSession(f.org)
	if got := f.readEvents(fromNow, 1); len(got) != 1 || got[0].Type != "session.started" {
		t.Errorf("got %+v", got)
	}
}

// TestStream_MissesNoLateCommit: an event whose transaction commits after that of a later
// event is read too, and once.
func TestStream_MissesNoLateCommit(t *testing.T) {
	f := newFixture(t)
	live := f.openStream(f.org, nil)
	f.run()
	late, err := f.System.BeginTxx(t.Context(), nil)
	f.must(err)
	_, err = late.ExecContext(t.Context(), `SELECT insert_event($1, 'key.revoked', NULL, '{}')`, f.org)
	f.must(err)
	f.startSession(f.org)
	if got := f.readEvents(live, 1); len(got) != 1 || got[0].Type != "session.started" {
		t.Fatalf("got %+v", got)
	}
	f.must(late.Commit())
	if got := f.readEvents(live, 1); len(got) != 1 || got[0].Type != "key.revoked" {
		t.Errorf("got %+v", got)
	}
}

func TestOpenStream_Refuses(t *testing.T) {
	f := newFixture(t)
	_, err := f.OpenStream(t.Context(), f.org, new(uuid.New()))
	assertFault(t, err, fault.NotFound)
	other := f.tenant()
	f.exec(`SELECT insert_event($1, 'key.revoked', NULL, '{}')`, other)
	_, err = f.publish(t.Context())
	f.must(err)
	foreign := uuid.MustParse(f.text(`SELECT id FROM events`))
	_, err = f.OpenStream(t.Context(), f.org, &foreign)
	assertFault(t, err, fault.NotFound)
	for range maxStreams {
		f.openStream(f.org, nil)
	}
	_, err = f.OpenStream(t.Context(), f.org, nil)
	assertFault(t, err, fault.RateLimited)
	last := f.openStream(other, nil)
	f.StopStreams()
	if _, err := last.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("a stream continues during the shutdown: %v", err)
	}
}

// TestOpenStream_RefusesToContinueOverAGap: an event is stored longer than events are
// recorded for readers.
func TestOpenStream_RefusesToContinueOverAGap(t *testing.T) {
	f := newFixture(t)
	event := func() *uuid.UUID {
		f.startSession(f.org)
		f.publishAll()
		return new(uuid.MustParse(f.text(`SELECT id FROM events ORDER BY position DESC LIMIT 1`)))
	}
	f.openStream(f.org, nil)
	before := event()
	f.openStream(f.org, before)
	f.exec(`UPDATE event_readers SET read_until = clock_timestamp()`) // days later
	_, err := f.OpenStream(t.Context(), f.org, before)
	assertFault(t, err, fault.NotFound)
	f.openStream(f.org, nil) // by another client
	_, err = f.OpenStream(t.Context(), f.org, before)
	assertFault(t, err, fault.NotFound)
	f.openStream(f.org, event())
}

// TestNotifyStreams_IgnoresPositionsOfTests: a test has a position that is above those of
// events that another replica is publishing.
func TestNotifyStreams_IgnoresPositionsOfTests(t *testing.T) {
	f := newFixture(t)
	e, _ := f.endpoint("https://hooks.example.com")
	f.startSession(f.org)
	f.publishAll()
	stream := f.openStream(f.org, nil)
	woken := func() bool {
		f.must(f.notifyStreams(t.Context()))
		select {
		case <-stream.changed:
			return true
		default:
			return false
		}
	}
	if !woken() || woken() {
		t.Error("a stream has to be woken once after its start")
	}
	_, err := f.SendTest(t.Context(), f.org, e.ID)
	f.must(err)
	f.exec(`UPDATE events SET position = position + 1000 WHERE is_test`)
	if woken() {
		t.Error("a test wakes a stream")
	}
	f.startSession(f.org)
	f.publishAll()
	if !woken() {
		t.Error("an event after a test does not wake the stream")
	}
}

// TestStatements_ReadOnlyWhatTheyNeed: no statement of an organization reads the events of
// others, and the search for an earlier delivery does not read all that are pending.
func TestStatements_ReadOnlyWhatTheyNeed(t *testing.T) {
	f := newFixture(t)
	for query, index := range map[string]string{
		lastPositionSQL: "events_organization_position_idx",
		`DELETE FROM events WHERE organization_id = $1`: "events_organization_position_idx",
		dueSQL: "webhook_deliveries_order_idx",
	} {
		var plan []string
		query = strings.NewReplacer("$1", "'"+f.org.String()+"'", "$2", "32", "$3", "128").Replace(query)
		f.must(f.System.SelectContext(t.Context(), &plan, `EXPLAIN `+query))
		if text := strings.Join(plan, "\n"); !strings.Contains(text, index) {
			t.Errorf("the plan of %s:\n%s", query, text)
		}
	}
}
