package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// canaryTimeout limits one canary.
const canaryTimeout = 10 * time.Second

// cgroupsFailed is reported when control groups fail and the cause is not a
// single piece.
const cgroupsFailed = "control groups"

// probe finds out which pieces this host supports. It creates a sandbox with all
// pieces, and tries again without the one that failed.
func (m *Manager) probe(ctx context.Context, start Start, found findings) error {
	m.pieces = isolationParts{PID: true, Network: true, Mount: true, Private: true, User: !canMount()}
	for range 2 * len(Pieces()) {
		m.pieces.Mount = m.pieces.Mount && found.enabled(MountNamespace)
		m.pieces.Private = m.pieces.Private && found.enabled(PrivateFiles)
		m.pieces.PID = m.pieces.PID && found.enabled(PIDNamespace)
		m.pieces.SharedProc = m.pieces.PID && !found.enabled(ProcessList)
		m.pieces.Network = m.pieces.Network && found.enabled(NetworkNamespace)
		m.applyDependencies(found)
		answered, failed, err := m.canary(ctx, start)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if answered.UserNamespaceError != "" {
				found.disable(ChromiumSandbox, fmt.Errorf("browsers cannot create user namespaces, so Chromium's sandbox needs its setuid helper: %s", answered.UserNamespaceError))
			}
			m.pieces.NestedUser = found.enabled(ChromiumSandbox)
			return nil
		case failed == cgroupsFailed:
			m.cgroups.close()
			m.cgroups.parents, m.cgroups.controllerHierarchy, m.cgroups.canKill = nil, nil, false
			for _, name := range []string{MemoryLimit, ProcessLimit, CgroupKill} {
				found.disable(name, err)
			}
			continue
		case failed == "" && !m.pieces.Mount && !m.pieces.Network: // even a process without namespaces fails
			return fmt.Errorf("canary: %w", err)
		case failed == "" && m.pieces.Mount:
			failed = MountNamespace
		case failed == "":
			failed = NetworkNamespace
		}
		found.disable(failed, advise(failed, err))
	}
	return errors.New("canary results are inconsistent")
}

// applyDependencies switches off pieces that depend on another piece that is
// off.
func (m *Manager) applyDependencies(found findings) {
	if !m.pieces.Mount {
		reason := fmt.Errorf("needs a mount namespace: %s", found[MountNamespace])
		for _, name := range []string{PrivateFiles, PIDNamespace} {
			found.disable(name, reason)
		}
		m.pieces.Private, m.pieces.PID = false, false
	}
	if m.pieces.SharedProc && !m.pieces.Private {
		found.disable(PIDNamespace, fmt.Errorf("needs private files, or: %s", found[ProcessList]))
		m.pieces.PID = false
	}
	if !m.pieces.PID {
		found.disable(ProcessList, fmt.Errorf("needs a PID namespace: %s", found[PIDNamespace]))
		m.pieces.SharedProc = false
	}
}

// advise adds what an operator can do to the error of a piece.
func advise(piece string, err error) error {
	setting := func(path string) string {
		raw, _ := os.ReadFile(path) // missing without the feature
		return strings.TrimSpace(string(raw))
	}
	var advice string
	profile, mode, _ := strings.Cut(setting("/proc/self/attr/current"), " ")
	seccomp, _ := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	switch {
	case piece == ProcessList:
		advice = "launches see the names and arguments of other processes in /proc, but have no access to them. In Docker, " +
			"use security_opt: systempaths=unconfined; in Kubernetes, hostUsers: false with procMount: Unmasked"
	case setting("/proc/sys/user/max_user_namespaces") == "0":
		advice = "user.max_user_namespaces is 0: set it to 10000 or more on the host"
	case mode == "(enforce)" && profile != "svc-worker":
		advice = "if the AppArmor profile " + profile + " denies it: load worker/apparmor.profile on the host and run the container with it " +
			"(Docker: security_opt: apparmor=svc-worker; Kubernetes: appArmorProfile with type Localhost)"
	case profile == "unconfined" && setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		advice = "kernel.apparmor_restrict_unprivileged_userns is 1: run the worker with the AppArmor profile worker/apparmor.profile, or set it to 0 on the host"
	case seccomp == unix.SECCOMP_MODE_FILTER:
		advice = "run the container with worker/seccomp.json (Docker: security_opt: seccomp=worker/seccomp.json; Kubernetes: seccompProfile with type Localhost)"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// canary creates and sets up a sandbox without a program. It returns the piece
// that failed, if known.
func (m *Manager) canary(ctx context.Context, start Start) (a response, failed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	sandbox, err := m.NewSandbox()
	if err != nil {
		return a, cgroupsFailed, err
	}
	defer sandbox.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return a, "", err
	}
	defer null.Close()
	cmd := sandbox.Command(null, null, nil)
	end, err := start(cmd)
	if err != nil {
		return a, m.deniedNamespace(start), err
	}
	defer end()
	if err := sandbox.ProcessStarted(cmd.Process.Pid); err != nil {
		return a, cgroupsFailed, err
	}
	o := setupRequest{UID: -1, Dir: "/", Canary: true}
	if os.Geteuid() == 0 {
		o.UID = 65534
	}
	a, err = sandbox.request(ctx, o)
	return a, a.FailedPiece, err
}

// deniedNamespace finds the namespace that prevents a process from starting; ""
// if unknown.
func (m *Manager) deniedNamespace(start Start) string {
	for _, without := range []struct {
		piece string
		has   bool
		fewer func(*isolationParts)
	}{
		{NetworkNamespace, m.pieces.Network, func(p *isolationParts) { p.Network = false }},
		{PIDNamespace, m.pieces.PID, func(p *isolationParts) { p.PID = false }},
	} {
		fewer := m.pieces
		without.fewer(&fewer)
		if without.has && m.canStart(start, fewer) {
			return without.piece
		}
	}
	return ""
}

// canStart reports whether a process can be started with these pieces.
func (m *Manager) canStart(start Start, with isolationParts) bool {
	sandbox, err := m.newSandbox(with)
	if err != nil {
		return false
	}
	defer sandbox.Close()
	end, err := start(sandbox.Command(nil, nil, nil))
	if err != nil {
		return false
	}
	end()
	return true
}

// canMount reports whether the worker can create namespaces without a user
// namespace.
func canMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() != 0 || unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
