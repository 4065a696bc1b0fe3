package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// freezeFile freezes and thaws a group of the v2 hierarchy.
const freezeFile = "cgroup.freeze"

// freezeSupport returns why groups cannot be frozen; nil if they can. In the v1
// hierarchy frozen processes cannot be killed, so it is not used.
func (g *cgroupManager) freezeSupport() error {
	dir := g.parents[unified]
	if dir == "" {
		return errors.New("the worker cannot create control groups of version 2")
	}
	if _, err := os.Stat(filepath.Join(dir, freezeFile)); err != nil {
		return errors.New("the kernel does not support " + freezeFile + " (Linux 5.2 or later does)")
	}
	return nil
}

// FreezeSupport returns why sandboxes cannot be frozen on this host; nil if they can.
// The worker must see every connection to a frozen program, so it needs a separate
// network.
func (m *Manager) FreezeSupport() error {
	if !m.pieces.Network {
		return errors.New("launches have no separate network")
	}
	return m.cgroups.freezeSupport()
}

// SetFrozen stops all processes of the launch, or continues them. FreezeSupport must be
// nil.
func (s *Sandbox) SetFrozen(frozen bool) error {
	if err := s.cgroup.setFrozen(frozen); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}

// setFrozen stops all processes of the group, or continues them. The kernel kills
// frozen processes as any other. A process may run for a moment after it returns.
func (g *cgroup) setFrozen(frozen bool) error {
	state := "0"
	if frozen {
		state = "1"
	}
	dir := g.dirs[unified]
	if dir == "" {
		return errors.New("no control group of version 2")
	}
	return writeFile(dir, freezeFile, state)
}
