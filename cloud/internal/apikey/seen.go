package apikey

import (
	"maps"
	"sync"
)

// maxCachedKeys bounds the keys that are remembered.
const maxCachedKeys = 10_000

// cache remembers whose keys have been good. What it says stays true, since a key
// never changes hands, but not that the key is good still.
type identityCache struct {
	mu   sync.RWMutex
	keys map[digest]Identity
}

func (s *identityCache) get(d digest) (Identity, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	identity, ok := s.keys[d]
	return identity, ok
}

func (s *identityCache) add(known map[digest]Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || len(s.keys)+len(known) > maxCachedKeys {
		s.keys = make(map[digest]Identity, len(known))
	}
	maps.Copy(s.keys, known)
}
