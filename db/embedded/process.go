package embedded

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// startProcess starts cmd and returns once it runs; waited receives the result of Wait
// once. A parent-death signal ends the child when this process dies. The kernel sends
// it when the thread that started the child ends, so that thread is locked until the
// child has ended.
func startProcess(cmd *exec.Cmd) (waited <-chan error, err error) {
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		ended <- cmd.Wait()
	}()
	return ended, <-started
}

// sysProcAttr returns the attributes of every child process: the account, a separate
// session, so that Ctrl-C reaches this process first, and an orderly shutdown when this
// process dies.
func (h *dataDir) sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: h.account.credential(), Setsid: true, Pdeathsig: syscall.SIGINT}
}

// environment is the environment of child processes: it contains no locale, PG variable
// or secret of this process.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "TZ=UTC"}
}

// leftovers returns the processes of this cluster, and the process ID of the postmaster
// (0 if it is not running).
func (h *dataDir) leftovers() (all []int, postmaster int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // fails only for an invalid pattern
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(h.tag)) {
			continue // ended meanwhile, or owned by another user
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		program, _, _ := bytes.Cut(text, []byte{0})
		switch {
		case bytes.HasPrefix(program, []byte("postgres: ")):
			all = append(all, pid)
		case filepath.Base(string(program)) == "postgres":
			all = append(all, pid)
			postmaster = pid
		}
	}
	return all, postmaster
}

// stopLeftovers ends processes that are still running after a crash: with a fast
// shutdown, then an immediate one, then SIGKILL.
func (h *dataDir) stopLeftovers(ctx context.Context) error {
	for _, step := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{{syscall.SIGINT, 10 * time.Second}, {syscall.SIGQUIT, 3 * time.Second}, {syscall.SIGKILL, 3 * time.Second}} {
		all, postmaster := h.leftovers()
		if len(all) == 0 {
			return nil
		}
		signal := step.signal
		switch {
		case signal == syscall.SIGKILL:
		case postmaster != 0: // also ends its child processes
			all = []int{postmaster}
		default: // without a postmaster, no recovery follows
			signal = syscall.SIGQUIT
		}
		for _, pid := range all {
			syscall.Kill(pid, signal) // the process may have ended
		}
		if h.waitGone(ctx, step.patience) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	all, _ := h.leftovers()
	return fmt.Errorf("cannot stop the leftover PostgreSQL server of this data directory: processes %v", all)
}

func (h *dataDir) waitGone(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if all, _ := h.leftovers(); len(all) == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// dropStalePid removes a postmaster.pid whose process ID now belongs to another
// program, which is common after a container restart. PostgreSQL would refuse to start.
// Call it only if no leftovers run. PostgreSQL itself handles a file with the ID of an
// ended process.
func (h *dataDir) dropStalePid() {
	path := filepath.Join(h.cluster(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil || pid <= 0 {
		return
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
		os.Remove(path)
	}
}
