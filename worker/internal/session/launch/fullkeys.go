package launch

import (
	"crypto/sha256"
	"sync"

	"github.com/browser-svc/svc/worker/internal/session"
)

// fullKeys remembers the keys for which the cloud's last answer left no free slot.
// It only decides whether a launch waits for ends before its first request. Keys are
// stored as hashes, and only after the cloud has accepted them.
type fullKeys struct {
	mu   sync.Mutex
	keys map[[sha256.Size]byte]bool
}

func (f *fullKeys) recentlyFull(key session.OrganizationKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys[sha256.Sum256([]byte(key.Reveal()))]
}

func (f *fullKeys) set(key session.OrganizationKey, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := sha256.Sum256([]byte(key.Reveal()))
	if !full {
		delete(f.keys, name)
		return
	}
	if f.keys == nil {
		f.keys = map[[sha256.Size]byte]bool{}
	}
	f.keys[name] = true
}
