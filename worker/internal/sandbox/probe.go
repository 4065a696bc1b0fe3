package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// canaryTime bounds the try of one set of pieces.
const canaryTime = 10 * time.Second

// controlGroups are what failed where it is not one piece.
const controlGroups = "control groups"

// probe finds out which pieces this host allows: it makes a room with all that
// are left, and without the one that failed the next time.
func (i *Isolation) probe(ctx context.Context, start Start, found findings) error {
	i.pieces = pieces{PID: true, Network: true, Mount: true, Private: true, User: !mayMount()}
	for range 2 * len(Pieces()) {
		i.pieces.Mount = i.pieces.Mount && found.on(MountNamespace)
		i.pieces.Private = i.pieces.Private && found.on(PrivateFiles)
		i.pieces.PID = i.pieces.PID && found.on(PIDNamespace)
		i.pieces.Network = i.pieces.Network && found.on(NetworkNamespace)
		i.require(found)
		answered, failed, err := i.canary(ctx, start)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if answered.NoUsers != "" {
				found.off(Sandbox, fmt.Errorf("user namespaces are denied to browsers, whose sandbox works only with a setuid helper then: %s", answered.NoUsers))
			}
			i.pieces.NewUser = found.on(Sandbox)
			return nil
		case failed == controlGroups:
			i.groups.close()
			i.groups.parents, i.groups.home, i.groups.kills = nil, nil, false
			for _, name := range []string{MemoryLimit, ProcessLimit, CgroupKill} {
				found.off(name, err)
			}
			continue
		case failed == "" && !i.pieces.Mount && !i.pieces.Network: // even the bare process fails
			return fmt.Errorf("canary: %w", err)
		case failed == "" && i.pieces.Mount:
			failed = MountNamespace
		case failed == "":
			failed = NetworkNamespace
		}
		found.off(failed, err)
	}
	return errors.New("the canaries do not agree")
}

// require takes away what can't be without another.
func (i *Isolation) require(found findings) {
	if !i.pieces.Mount {
		reason := fmt.Errorf("it needs a mount namespace: %s", found[MountNamespace])
		for _, name := range []string{PrivateFiles, PIDNamespace} {
			found.off(name, reason)
		}
		i.pieces.Private, i.pieces.PID = false, false
	}
}

// canary makes a room, furnishes it and leaves. It returns the piece that
// failed, where that is known.
func (i *Isolation) canary(ctx context.Context, start Start) (a answer, failed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, canaryTime)
	defer cancel()
	room, err := i.Room()
	if err != nil {
		return a, controlGroups, err
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
		return a, i.deniedSpace(start), err
	}
	defer end()
	if err := room.Started(cmd.Process.Pid); err != nil {
		return a, controlGroups, err
	}
	o := order{UID: -1, Dir: "/", Try: true}
	if os.Geteuid() == 0 {
		o.UID = 65534
	}
	a, err = room.order(ctx, o)
	return a, a.Failed, err
}

// deniedSpace tells, after a process could not be started in all its
// namespaces, without which one it can be; "" when that is not known.
func (i *Isolation) deniedSpace(start Start) string {
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
		if without.has && i.starts(start, fewer) {
			return without.piece
		}
	}
	return ""
}

// starts reports whether a process can be started with these pieces.
func (i *Isolation) starts(start Start, with pieces) bool {
	room, err := i.room(with)
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

// mayMount reports whether the worker can make namespaces by its own right,
// without a user namespace.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() != 0 || unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
