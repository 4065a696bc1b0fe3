package browser

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// ErrClosed is returned by a Launcher that has been closed.
var ErrClosed = errors.New("browser: launcher closed")

// starter is the one thread that starts every process. The kernel sends the
// parent-death signal when the forking thread dies, not when the process dies,
// so the thread must live exactly as long as the worker.
type starter struct {
	jobs chan func()
	quit chan struct{}
	once sync.Once
}

func newStarter() *starter {
	s := &starter{jobs: make(chan func()), quit: make(chan struct{})}
	go s.loop()
	return s
}

// loop never unlocks its thread: when it returns, the thread ends and the kernel
// kills the remaining processes.
func (s *starter) loop() {
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

func (s *starter) close() { s.once.Do(func() { close(s.quit) }) }

// process is a started process, the leader of its own group.
type process struct {
	cmd    *exec.Cmd
	died   chan struct{} // closed when it has died, been reaped and its group killed
	diedAt time.Time     // of death; valid once died is closed

	mu     sync.Mutex
	reaped bool
}

// start runs cmd in its own process group, as uid unless that is negative, to
// be killed when this thread dies.
func (s *starter) start(cmd *exec.Cmd, uid int) (*process, error) {
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
	p := &process{cmd: cmd, died: make(chan struct{})}
	go p.watch()
	return p, nil
}

// watch kills the group before it reaps the dead leader, so that the pid cannot
// be reused by another process.
func (p *process) watch() {
	defer close(p.died)
	pid := p.cmd.Process.Pid
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.diedAt = time.Now().UTC()
	syscall.Kill(-pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.reaped = true
}

// kill kills the process and its group.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// moveTo moves the process into the control group of a sandbox, unless it has died.
func (p *process) moveTo(sb *sandbox.Sandbox) error {
	p.mu.Lock() // until then the pid belongs to no other process
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	if err := sb.AddProcess(p.pid()); err != nil && !errors.Is(err, unix.ESRCH) { // it is dying
		return err
	}
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// status returns how the process died. It must be called only after died is closed.
func (p *process) status() syscall.WaitStatus {
	ws, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ws
}
