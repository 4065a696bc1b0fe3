package webhook

import (
	"context"
	"errors"
	"io"
	"slices"
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
