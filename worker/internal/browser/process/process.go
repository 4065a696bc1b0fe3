// Package process starts and ends the processes of launches. One thread starts all of
// them, and the kernel kills them when it ends. It also finds processes of earlier workers by
// their user or marker, and allocates user ids. A Starter owns the thread, a Process the
// goroutine that waits for its end, a UIDPool the locks of its ids.
package process

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// ErrClosed is returned by a closed Starter.
var ErrClosed = errors.New("the worker is shutting down")

// Starter is the one thread that starts every process. The kernel sends the
// parent-death signal when the forking thread dies, not when the process dies,
// so the thread must live exactly as long as the worker.
type Starter struct {
	jobs chan func()
	quit chan struct{}
	once sync.Once
}

// NewStarter starts the thread. Close it.
func NewStarter() *Starter {
	s := &Starter{jobs: make(chan func()), quit: make(chan struct{})}
	go s.loop()
	return s
}

// loop never unlocks its thread: when it returns, the thread ends and the kernel
// kills the remaining processes.
func (s *Starter) loop() {
	runtime.LockOSThread()
	for {
		select {
		case job := <-s.jobs:
			job()
		case <-s.quit:
			return
		}
	}
}

// Close ends the thread, and so the processes that it has started.
func (s *Starter) Close() { s.once.Do(func() { close(s.quit) }) }

// Process is a started process, the leader of its own group.
type Process struct {
	cmd    *exec.Cmd
	Died   chan struct{} // closed when it has died, been reaped and its group killed
	DiedAt time.Time     // of death; valid once Died is closed

	mu     sync.Mutex
	reaped bool
}

// Start runs cmd in its own process group, as uid unless that is negative, to
// be killed when this thread dies.
func (s *Starter) Start(cmd *exec.Cmd, uid int) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if uid >= 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	result := make(chan error, 1)
	select {
	case s.jobs <- func() { result <- cmd.Start() }:
	case <-s.quit:
		return nil, ErrClosed
	}
	if err := <-result; err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, Died: make(chan struct{})}
	go p.watch()
	return p, nil
}

// watch kills the group before it reaps the dead leader, so that the pid cannot
// be reused by another process.
func (p *Process) watch() {
	defer close(p.Died)
	pid := p.cmd.Process.Pid
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.DiedAt = time.Now().UTC()
	syscall.Kill(-pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.reaped = true
}

// Kill kills the process and its group.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// MoveTo moves the process into the control group of a sandbox, unless it has died.
func (p *Process) MoveTo(sb *sandbox.Sandbox) error {
	p.mu.Lock() // until then the pid belongs to no other process
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	if err := sb.AddProcess(p.PID()); err != nil && !errors.Is(err, unix.ESRCH) { // it is dying
		return err
	}
	return nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// State returns how the process died. It must be called only after Died is closed.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Status returns the wait status of a dead process.
func (p *Process) Status() syscall.WaitStatus {
	ws, _ := p.State().Sys().(syscall.WaitStatus)
	return ws
}
