package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// canaryTimeout bounds the try of one set of pieces.
const canaryTimeout = 10 * time.Second

// cgroupsFailed are what failed where it is not one piece.
const cgroupsFailed = "control groups"

// probe finds out which pieces this host allows: it makes a room with all that
// are left, and without the one that failed the next time.
func (i *Manager) probe(ctx context.Context, start Start, found findings) error {
	i.pieces = pieces{PID: true, Network: true, Mount: true, Private: true, User: !canMount()}
	for range 2 * len(Pieces()) {
		i.pieces.Mount = i.pieces.Mount && found.enabled(MountNamespace)
		i.pieces.Private = i.pieces.Private && found.enabled(PrivateFiles)
		i.pieces.PID = i.pieces.PID && found.enabled(PIDNamespace)
		i.pieces.Network = i.pieces.Network && found.enabled(NetworkNamespace)
		i.applyDependencies(found)
		answered, failed, err := i.canary(ctx, start)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if answered.UserNamespaceError != "" {
				found.disable(ChromiumSandbox, fmt.Errorf("user namespaces are denied to browsers, whose sandbox works only with a setuid helper then: %s", answered.UserNamespaceError))
			}
			i.pieces.NestedUser = found.enabled(ChromiumSandbox)
			return nil
		case failed == cgroupsFailed:
			i.cgroups.close()
			i.cgroups.parents, i.cgroups.controllerHierarchy, i.cgroups.canKill = nil, nil, false
			for _, name := range []string{MemoryLimit, ProcessLimit, CgroupKill} {
				found.disable(name, err)
			}
			continue
		case failed == "" && !i.pieces.Mount && !i.pieces.Network: // even the bare process fails
			return fmt.Errorf("canary: %w", err)
		case failed == "" && i.pieces.Mount:
			failed = MountNamespace
		case failed == "":
			failed = NetworkNamespace
		}
		found.disable(failed, err)
	}
	return errors.New("the canaries do not agree")
}

// applyDependencies takes away what can't be without another.
func (i *Manager) applyDependencies(found findings) {
	if !i.pieces.Mount {
		reason := fmt.Errorf("it needs a mount namespace: %s", found[MountNamespace])
		for _, name := range []string{PrivateFiles, PIDNamespace} {
			found.disable(name, reason)
		}
		i.pieces.Private, i.pieces.PID = false, false
	}
}

// canary makes a room, furnishes it and leaves. It returns the piece that
// failed, where that is known.
func (i *Manager) canary(ctx context.Context, start Start) (a response, failed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	room, err := i.NewSandbox()
	if err != nil {
		return a, cgroupsFailed, err
	}
	defer room.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return a, "", err
	}
	defer null.Close()
	cmd := room.Command(null, null, nil)
	end, err := start(cmd)
	if err != nil {
		return a, i.deniedNamespace(start), err
	}
	defer end()
	if err := room.ProcessStarted(cmd.Process.Pid); err != nil {
		return a, cgroupsFailed, err
	}
	o := setupRequest{UID: -1, Dir: "/", Canary: true}
	if os.Geteuid() == 0 {
		o.UID = 65534
	}
	a, err = room.request(ctx, o)
	return a, a.FailedPiece, err
}

// deniedNamespace tells, after a process could not be started in all its
// namespaces, without which one it can be; "" when that is not known.
func (i *Manager) deniedNamespace(start Start) string {
	for _, without := range []struct {
		piece string
		has   bool
		fewer func(*pieces)
	}{
		{NetworkNamespace, i.pieces.Network, func(p *pieces) { p.Network = false }},
		{PIDNamespace, i.pieces.PID, func(p *pieces) { p.PID = false }},
	} {
		fewer := i.pieces
		without.fewer(&fewer)
		if without.has && i.canStart(start, fewer) {
			return without.piece
		}
	}
	return ""
}

// canStart reports whether a process can be started with these pieces.
func (i *Manager) canStart(start Start, with pieces) bool {
	room, err := i.newSandbox(with)
	if err != nil {
		return false
	}
	defer room.Close()
	end, err := start(room.Command(nil, nil, nil))
	if err != nil {
		return false
	}
	end()
	return true
}

// canMount reports whether the worker can make namespaces by its own right,
// without a user namespace.
func canMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() != 0 || unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
