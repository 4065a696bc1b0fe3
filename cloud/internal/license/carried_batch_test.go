package license

import (
	"testing"

	"github.com/google/uuid"
)

// TestCarriedEnds_KeepsEndsOfOwnMachine: requests of several machines in one batch may
// name the same session.
func TestCarriedEnds_KeepsEndsOfOwnMachine(t *testing.T) {
	session := uuid.New()
	holds := map[slotHolder]bool{{session, "worker-1"}: true}
	for machine, want := range map[string]int{"worker-1": 1, "worker-2": 0} {
		c := carriedEnds{machine, []EndReport{{SessionID: session}, {SessionID: session}, {SessionID: uuid.New()}}}
		if live := c.ofHeldSlots(holds); len(live) != want {
			t.Errorf("%s: %d ends, want %d", machine, len(live), want)
		}
	}
}
