package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// freezeFile freezes and thaws a group.
const freezeFile = "cgroup.freeze"

// stopTimeout limits how long stopping the processes of a launch takes. On a busy machine a
// process stops only when it gets a processor.
const (
	stopTimeout = 2 * time.Second
	stopPause   = 2 * time.Millisecond
)

// canFreeze reports whether groups can be frozen.
func (g *cgroupManager) canFreeze() bool {
	_, err := os.Stat(filepath.Join(g.parent, freezeFile))
	return g.parent != "" && err == nil
}

// FreezeSupport returns why sandboxes cannot be frozen on this host; nil if they can.
// The worker must see every connection to a frozen program, so it needs a separate
// network.
func (m *Manager) FreezeSupport() error {
	if !m.pieces.Namespaces {
		return errors.New("launches have no separate network")
	}
	return nil
}

// SetFrozen stops all processes of the launch, or continues them. FreezeSupport must be
// nil. The caller makes one call at a time.
func (s *Sandbox) SetFrozen(frozen bool) (err error) {
	switch {
	case s.manager.cgroups.canFreeze():
		err = s.cgroup.setFrozen(frozen)
	case frozen:
		err = s.stopProcesses()
	default:
		s.continueProcesses()
	}
	if err != nil {
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
	return writeFile(g.dir, freezeFile, state)
}

// stopProcesses stops the processes of the launch by SIGSTOP, which they cannot ignore, until
// two scans in a row find none that runs: a scan can miss a new process.
func (s *Sandbox) stopProcesses() error {
	quietRounds := 0
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); {
		busy := false
		for _, p := range readProcesses().tree(s.first) {
			if strings.Contains("TtZX", p.state) { // stopped or ended
				continue
			}
			busy = busy || p.state != "D" // one that waits in the kernel stops before it continues
			p.signal(unix.SIGSTOP)
			if !slices.ContainsFunc(s.stopOrder, func(other process) bool { return other.pid == p.pid && other.startTime == p.startTime }) {
				s.stopOrder = append(s.stopOrder, p)
			}
		}
		if quietRounds++; busy {
			quietRounds = 0
			time.Sleep(stopPause)
		}
		if quietRounds == 2 {
			return nil
		}
	}
	s.continueProcesses()
	return errors.New("the processes of the launch could not be stopped in time: it starts new ones too fast, or the machine is overloaded")
}

// continueProcesses continues the processes that stopProcesses has stopped, children first.
func (s *Sandbox) continueProcesses() {
	for _, p := range slices.Backward(s.stopOrder) {
		p.signal(unix.SIGCONT)
	}
	s.stopOrder = nil
}
