package selftest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// findProcess finds a process of the launch: the browser's main process or its X
// server.
func (t *scenarioRun) findProcess(display bool) (process, error) {
	processes := descendants(t.worker.pid())
	debugged := fmt.Sprintf("--remote-debugging-port=%d ", value(t.session.DebugPort))
	at := slices.IndexFunc(processes, func(p process) bool { return isBrowser(p) && strings.Contains(p.command, debugged) })
	if at < 0 {
		return process{}, errors.New("found no browser with the launch's debugging port")
	}
	if !display {
		return processes[at], nil
	}
	_, root, _ := strings.Cut(processes[at].command, "--svc-launch=")
	root, _, _ = strings.Cut(root, " ")
	at = slices.IndexFunc(processes, func(p process) bool {
		return !p.zombie && strings.Contains(p.command, "Xvnc") && root != "" && strings.Contains(p.command, root+"/")
	})
	if at < 0 {
		return process{}, errors.New("found no X server of the launch")
	}
	return processes[at], nil
}

// killProcess kills a process of the launch with SIGKILL.
func (t *scenarioRun) killProcess(display bool) error {
	p, err := t.findProcess(display)
	if err != nil {
		return err
	}
	t.markEndRequested()
	return syscall.Kill(p.pid, syscall.SIGKILL)
}
