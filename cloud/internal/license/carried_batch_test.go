package license

import (
	"testing"

	"github.com/google/uuid"
)

// TestCarried_KeepsTheEndsOfItsMachineAlone: authorizes of several machines that
// come together are looked up together, and may name the same session.
func TestCarried_KeepsTheEndsOfItsMachineAlone(t *testing.T) {
	session := uuid.New()
	holds := map[slotHolder]bool{{session, "worker-1"}: true}
	for machine, want := range map[string]int{"worker-1": 1, "worker-2": 0} {
		c := carried{machine, []EndReport{{SessionID: session}, {SessionID: session}, {SessionID: uuid.New()}}}
		if live := c.live(holds); len(live) != want {
			t.Errorf("%s: %d ends, want %d", machine, len(live), want)
		}
	}
}
