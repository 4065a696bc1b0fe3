package recording

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/clock"
)

// StoreOptions configures a Store.
type StoreOptions struct {
	Bucket    *blob.Bucket
	Journal   string                        // directory, which is created if needed
	Retention time.Duration                 // of recordings after their end
	Own       Owner                         // of this worker's own recordings, also those of other workers; zero: none
	Remove    func(session uuid.UUID) error // removes a recording from the disk
	Clock     clock.Clock
	Log       *slog.Logger
	Metrics   *Metrics // nil: not exported
}

// Owner says where the recordings of an organization are, and which workers serve them.
type Owner struct {
	Directory string // of the organization
	Access    string // the same for all workers whose worker key opens the recordings
}

// Store keeps ended recordings in an object store:
//
//	recordings/<organization>/<session id>/<part>          such as video.webm
//	recordings/<organization>/<session id>/recording.json  the description, written last
//	recordings/collected                                   when expired recordings were last deleted
//
// A journal on the disk names the recordings of this worker until they expire, so that
// uploads go on after a restart. Other workers with the same owner find them by their
// description.
type Store struct {
	StoreOptions
	uploads chan struct{} // limits concurrent uploads
	work    sync.WaitGroup
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu      sync.Mutex
	entries map[uuid.UUID]*entry
}

// entry is a recording of this worker.
type entry struct {
	Session  uuid.UUID `json:"sessionId"`
	Owner    Owner     `json:"owner"`
	Info     Info      `json:"recording"` // once it is stored
	StoredAt time.Time `json:"storedAt,omitzero"`
	Expires  time.Time `json:"expiresAt,omitzero"`
}

// description is the object that describes a recording.
type description struct {
	Info
	Session uuid.UUID `json:"sessionId"`
	Access  string    `json:"access"`
	Expires time.Time `json:"expiresAt"`
}

const (
	storeRoot     = "recordings"
	collectedName = storeRoot + "/collected"
)

// object returns the key of a part of a recording.
func (o Owner) object(session uuid.UUID, name string) string {
	return path.Join(storeRoot, o.Directory, session.String(), name)
}

// OpenStore returns a Store with the journal of an earlier worker. The caller must call
// Close.
func OpenStore(o StoreOptions) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	s := &Store{StoreOptions: o, uploads: make(chan struct{}, maxUploads), entries: map[uuid.UUID]*entry{}}
	if err := s.readJournal(); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// begin enters a recording that begins into the journal.
func (s *Store) begin(session uuid.UUID, owner Owner) error {
	e := &entry{Session: session, Owner: owner}
	if err := s.save(e); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[session] = e
	return nil
}

// entry returns a copy of an entry that has not expired.
func (s *Store) entry(session uuid.UUID) (entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[session]
	if e == nil || e.expired(s.Clock.Now()) {
		return entry{}, false
	}
	return *e, true
}

// stored returns the entry of a recording of this worker that is stored.
func (s *Store) stored(session uuid.UUID) (entry, bool) {
	if s == nil {
		return entry{}, false
	}
	e, ok := s.entry(session)
	return e, ok && !e.StoredAt.IsZero()
}

func (e *entry) expired(now time.Time) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }

// Unstored returns how many ended recordings are not stored yet.
func (s *Store) Unstored() (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.StoredAt.IsZero() && e.Info.State != "" {
			count++
		}
	}
	return count
}

// Close waits for uploads until ctx ends, and ends the rest, which a later Store continues.
// No recording may run. It may be called again.
func (s *Store) Close(ctx context.Context) {
	if s.ctx.Err() != nil {
		return
	}
	defer s.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.work.Wait()
	}()
	report := time.NewTicker(progressInterval)
	defer report.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			s.cancel()
			<-done
			if remaining := s.Unstored(); remaining > 0 {
				s.Log.Warn("recordings are not stored yet: the next start of this worker continues", "recordings", remaining)
			}
			return
		case <-report.C:
			s.Log.Info("waiting until recordings are stored", "recordings", s.Unstored())
		}
	}
}

// errClosed is why nothing is recorded, converted or stored after Close.
var errClosed = errors.New("recording: the worker is shutting down")
