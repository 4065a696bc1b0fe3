package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
)

// Data holds the browser data of profiles that keep theirs, a directory each.
type Data struct {
	dir string

	mu    sync.Mutex
	inUse map[uuid.UUID]bool
}

// NewData returns the data kept under dir.
func NewData(dir string) *Data { return &Data{dir: dir, inUse: map[uuid.UUID]bool{}} }

// Claim returns a profile's directory, for one launch at a time, and what gives
// it back. Errors: Conflict while another launch has it.
func (d *Data) Claim(profileID uuid.UUID) (dir string, release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inUse[profileID] {
		return "", nil, fault.New(fault.Conflict, "The profile keeps its data and is running already on this worker.")
	}
	dir = filepath.Join(d.dir, profileID.String())
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", nil, fmt.Errorf("make the profile's data directory: %w", err)
	}
	d.inUse[profileID] = true
	return dir, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.inUse, profileID)
	}, nil
}
