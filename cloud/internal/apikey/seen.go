package apikey

import (
	"maps"
	"sync"
)

// seenMost bounds the keys that are remembered.
const seenMost = 10_000

// seen remembers whose keys have been good. What it says stays true, since a key
// never changes hands, but not that the key is good still.
type seen struct {
	mu   sync.RWMutex
	keys map[digest]Identity
}

func (s *seen) get(d digest) (Identity, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	identity, ok := s.keys[d]
	return identity, ok
}

func (s *seen) add(known map[digest]Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || len(s.keys)+len(known) > seenMost {
		s.keys = make(map[digest]Identity, len(known))
	}
	maps.Copy(s.keys, known)
}
