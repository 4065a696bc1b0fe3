package usage

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// shardCount is the number of shards. Adding an organization copies one shard's map.
const shardCount = 256

// counter counts the requests of one organization.
type counter struct {
	pending    atomic.Int64 // not written yet
	refreshing atomic.Bool  // a request is reading the database; others use the cached row
	cached     atomic.Pointer[cachedRow]
}

// shard is a part of the counters. Its map is replaced, never changed, so that it can
// be read without a lock.
type shard struct {
	mu       sync.Mutex // held to replace the map
	counters atomic.Pointer[map[uuid.UUID]*counter]
}

func (s *shard) all() map[uuid.UUID]*counter {
	if m := s.counters.Load(); m != nil {
		return *m
	}
	return nil
}

// counter returns the counter of the organization, nil if too many organizations are
// counted.
func (s *Service) counter(orgID uuid.UUID) *counter {
	part := &s.shards[orgID[15]] // random in every version of identifiers in use
	if c := part.all()[orgID]; c != nil {
		return c
	}
	return part.add(orgID, max(1, s.opts.MaxOrganizations/shardCount))
}

func (s *shard) add(orgID uuid.UUID, most int) *counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.all()
	if c := old[orgID]; c != nil {
		return c
	}
	if len(old) >= most {
		return nil
	}
	next := make(map[uuid.UUID]*counter, len(old)+1)
	maps.Copy(next, old)
	c := new(counter)
	next[orgID] = c
	s.counters.Store(&next)
	return c
}

// forget removes the counters that have nothing to write. A request that is
// concurrently counting may be lost.
func (s *shard) forget(idle map[uuid.UUID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[uuid.UUID]*counter{}
	for id, c := range s.all() {
		if !idle[id] || c.pending.Load() != 0 {
			next[id] = c
		}
	}
	s.counters.Store(&next)
}
