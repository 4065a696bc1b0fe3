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

// namespacePieces are the pieces that a host allows together or not at all.
func namespacePieces() []string {
	return []string{PIDNamespace, NetworkNamespace, MountNamespace, PrivateFiles}
}

// probe finds out which pieces this host supports. A canary goes without a separate list of
// processes, Chromium's sandbox and control groups where the host denies them. Where it
// denies the namespaces, a second canary goes without them too.
func (m *Manager) probe(ctx context.Context, start Start, found findings) error {
	m.pieces = isolationParts{Namespaces: true, SharedProc: !found.enabled(ProcessList), User: !canMount()}
	for _, name := range namespacePieces() {
		if !found.enabled(name) {
			m.withoutNamespaces(found, name, errors.New(found[name]))
			break
		}
	}
	answer, err := m.canary(ctx, start, found)
	if err != nil && m.pieces.Namespaces && ctx.Err() == nil {
		m.withoutNamespaces(found, answer.FailedPiece, advise(PIDNamespace, err))
		answer, err = m.canary(ctx, start, found)
	}
	if err != nil {
		return fmt.Errorf("canary: %w", err)
	}
	for name, text := range answer.Denied {
		found.disable(name, advise(name, errors.New(text)))
	}
	m.pieces.SharedProc = !found.enabled(ProcessList)
	return nil
}

// withoutNamespaces switches the namespaces off, because one piece is missing or, with "",
// all are.
func (m *Manager) withoutNamespaces(found findings, missing string, err error) {
	m.pieces.Namespaces = false
	if missing != "" {
		found.disable(missing, err)
		err = fmt.Errorf("needs %s: %w", missing, err)
	}
	for _, name := range append(namespacePieces(), ProcessList) {
		found.disable(name, err)
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

// canary creates and sets up a sandbox without a program.
func (m *Manager) canary(ctx context.Context, start Start, found findings) (answer response, err error) {
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	sandbox, err := m.newSandbox(baseConfig{isolationParts: m.pieces, Canary: true})
	if err != nil {
		return answer, err
	}
	var groupErr error
	defer func() {
		sandbox.Close()
		if groupErr != nil {
			m.cgroups.disable(found, groupErr)
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return answer, err
	}
	defer null.Close()
	cmd := sandbox.Command(null, null, nil)
	end, err := start(cmd)
	if err != nil {
		return answer, err
	}
	defer end()
	groupErr = sandbox.ProcessStarted(cmd.Process.Pid)
	request := setupRequest{UID: -1, Dir: "/"}
	if os.Geteuid() == 0 {
		request.UID = 65534
	}
	return sandbox.request(ctx, request)
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
