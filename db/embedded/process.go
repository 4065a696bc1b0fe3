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

// startProcess starts cmd and returns once it runs; waited gets the result of Wait,
// once. The child dies with us by a parent-death signal, which the kernel ties
// to the thread that forked: so that thread is locked, and lives until the
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

// sysProcAttr of every process started here: the account, a session of its own,
// so that a Ctrl-C on the terminal reaches us first, and an orderly shutdown
// when we die.
func (h *dataDir) sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: h.account.credential(), Setsid: true, Pdeathsig: syscall.SIGINT}
}

// environment holds nothing of ours: no locale, no PG variable, no secret.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "TZ=UTC"}
}

// leftovers returns the processes of this cluster and which of them is the
// postmaster (0 when it is gone).
func (h *dataDir) leftovers() (all []int, postmaster int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // fails for a bad pattern only
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(h.tag)) {
			continue // ended meanwhile, or another's
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

// stopLeftovers ends what a crash of ours or of the postmaster left running:
// politely, then at once, then by force.
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
		case postmaster != 0: // takes its children along
			all = []int{postmaster}
		default: // orphans have nobody to recover for
			signal = syscall.SIGQUIT
		}
		for _, pid := range all {
			syscall.Kill(pid, signal) // it may have ended by now
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

// dropStalePid removes a postmaster.pid whose process id now belongs to some
// other program (usual after a container restarts): PostgreSQL would refuse to
// start. It must only be called when no leftovers run. A file with a dead
// process is left to PostgreSQL, which looks closer.
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
