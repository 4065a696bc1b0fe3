package selftest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// part finds a process of the trial's own launch: the browser's main one, or
// its display's server.
func (t *trial) part(display bool) (process, error) {
	processes := descendants(t.worker.pid())
	sockets := tcpSockets(os.Getpid())
	at := slices.IndexFunc(sockets, func(s socket) bool { return s.listens && s.localPort == int(value(t.session.DebugPort)) })
	if at < 0 {
		return process{}, errors.New("nothing listens on the browser's port")
	}
	var browsers, displays []process
	for _, p := range processes {
		switch {
		case p.uid != sockets[at].uid || p.zombie:
		case isBrowser(p):
			browsers = append(browsers, p)
		case strings.Contains(p.command, "Xvnc"):
			displays = append(displays, p)
		}
	}
	if len(browsers) > 1 { // all browsers have one user: the socket tells, or the directory
		holders := slices.DeleteFunc(slices.Clone(browsers), func(p process) bool { return !holds(p.pid, sockets[at].inode) })
		if len(holders) == 0 {
			holders = slices.DeleteFunc(browsers, func(p process) bool { return !strings.Contains(p.command, t.session.LaunchId.String()) })
		}
		browsers = holders
	}
	if len(browsers) != 1 {
		return process{}, fmt.Errorf("%d processes may be the browser's main one", len(browsers))
	}
	if !display {
		return browsers[0], nil
	}
	if len(displays) > 1 { // the same for its directory
		_, root, _ := strings.Cut(browsers[0].command, "--svc-launch=")
		root, _, _ = strings.Cut(root, " ")
		displays = slices.DeleteFunc(displays, func(p process) bool { return root == "" || !strings.Contains(p.command, root+"/") })
	}
	if len(displays) != 1 {
		return process{}, fmt.Errorf("%d processes may be its display's server", len(displays))
	}
	return displays[0], nil
}

// shoot kills a process of the trial's launch.
func (t *trial) shoot(display bool) error {
	p, err := t.part(display)
	if err != nil {
		return err
	}
	t.ending()
	return syscall.Kill(p.pid, syscall.SIGKILL)
}
