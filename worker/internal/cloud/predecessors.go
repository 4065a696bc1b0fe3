package cloud

import (
	"crypto/sha256"
	"sync"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
)

// predecessors returns the earlier boots to send with a call. It returns nil
// once the organization of the key has applied a heartbeat of this boot, and if
// the earlier boots are unknown.
func (c *Client) predecessors(key session.OrganizationKey) *[]uuid.UUID {
	if c.machine.Predecessors == nil || c.introduced.has(key) {
		return nil
	}
	return &c.machine.Predecessors
}

// maxIntroducedKeys bounds the remembered keys. After a reset, the predecessors
// are sent again.
const maxIntroducedKeys = 10_000

// introducedKeys holds the hashes of the keys whose organizations know this
// boot.
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
