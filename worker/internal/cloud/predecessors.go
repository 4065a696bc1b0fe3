package cloud

import (
	"crypto/sha256"
	"sync"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
)

// predecessors are told to the organization of a key until it has taken in a
// heartbeat of this boot: nil from then on, and where nobody knows them.
func (c *Client) predecessors(key session.OrganizationKey) *[]uuid.UUID {
	if c.machine.Predecessors == nil || c.introduced.has(key) {
		return nil
	}
	return &c.machine.Predecessors
}

// maxIntroducedKeys bounds the keys that are remembered; one that is forgotten is
// told the predecessors again.
const maxIntroducedKeys = 10_000

// introducedKeys are the keys whose organizations know this boot, by their hashes.
type introducedKeys struct {
	mu   sync.Mutex
	keys map[[sha256.Size]byte]bool
}

func (i *introducedKeys) has(key session.OrganizationKey) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[sha256.Sum256([]byte(key.Reveal()))]
}

func (i *introducedKeys) add(key session.OrganizationKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.keys == nil || len(i.keys) >= maxIntroducedKeys {
		i.keys = map[[sha256.Size]byte]bool{}
	}
	i.keys[sha256.Sum256([]byte(key.Reveal()))] = true
}
