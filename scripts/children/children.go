// Package children runs child processes: it waits until each is ready, writes its
// log, restarts those that exit, stops the processes in reverse order, and ensures
// that they do not outlive the script.
package children

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 45 * time.Second
	pollInterval = 50 * time.Millisecond

	minRestartDelay = 500 * time.Millisecond
	maxRestartDelay = 30 * time.Second
)

// CommandLine is the main package of svc.
const CommandLine = "worker/cmd/svc"

// Build compiles the main packages into dir. The programs are named svc-cloud, svc-worker and svc.
func Build(ctx context.Context, dir string, packages ...string) error {
	for _, folder := range packages {
		program := "svc-" + folder
		if folder == CommandLine {
			program = "svc"
		}
		command := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, program), "./"+folder)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("build %s: %w", program, err)
		}
	}
	return nil
}

// FreePort returns a free port of the loopback interface.
func FreePort(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return strconv.Itoa(port), listener.Close()
}

// Program describes a program to start.
type Program struct {
	Name        string // for messages
	Path        string // of the executable
	Log         string // the log file
	Health      string // the URL that returns 200 when the program is ready
	Environment []string
	Args        []string
	Clean       bool // use only Environment, not the environment of this process
}

// RequireFree returns an error if the port is in use, on all addresses or on the
// loopback address.
func RequireFree(ctx context.Context, port string) error {
	for _, host := range []string{"", "127.0.0.1"} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %s is in use", port)
		}
		if err != nil {
			return fmt.Errorf("cannot listen on port %s: %w", port, err)
		}
		if err := listener.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Child is a started program.
type Child struct {
	Program
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Start starts a program and waits until it is ready. If it does not become ready,
// Start returns an error and the child, which the caller must stop.
func Start(ctx context.Context, p Program) (*Child, error) {
	if err := os.MkdirAll(filepath.Dir(p.Log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c := &Child{Program: p, done: make(chan struct{}), cmd: exec.Command(p.Path, p.Args...)} //nolint:noctx // Stop ends it
	c.cmd.Env = slices.Concat(os.Environ(), ownDefaults(), p.Environment)
	if p.Clean {
		c.cmd.Env = p.Environment
	}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	// Ctrl-C must not reach the child directly: Stop ends the children in order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", p.Name, err)
	}
	go func() {
		_ = c.cmd.Wait() // ProcessState has it
		close(c.done)
	}()
	return c, c.ready(ctx)
}

func (c *Child) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		answers := healthy(ctx, c.Health)
		select { // if the child has exited, another program responded
		case <-c.done:
			return c.ended()
		default:
		}
		if answers {
			return nil
		}
		select {
		case <-c.done:
			return c.ended()
		case <-ctx.Done():
			return fmt.Errorf("the %s did not become ready: %w\n%s", c.Name, ctx.Err(), Tail(c.Log))
		case <-time.After(pollInterval):
		}
	}
}

func healthy(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (c *Child) ended() error {
	return fmt.Errorf("the %s exited (%s), see %s:\n%s", c.Name, c.cmd.ProcessState, c.Log, Tail(c.Log))
}

// PID returns the id of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Kill ends the program with SIGKILL and waits for its exit.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// Done is closed when the program has exited.
func (c *Child) Done() <-chan struct{} { return c.done }

// Stop stops the program and waits for its exit.
func (c *Child) Stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
		return nil
	case <-time.After(stopTimeout):
	}
	_ = c.cmd.Process.Kill()
	<-c.done
	return fmt.Errorf("the %s had to be killed", c.Name)
}

// Group is a group of programs that are stopped in reverse order of their start.
type Group struct {
	Say func(format string, args ...any) // logs the programs that exit, and are restarted or stopped; safe for concurrent use
	all []*Child
}

// Start starts a program of the group.
func (g *Group) Start(ctx context.Context, p Program) error {
	c, err := Start(ctx, p)
	if c != nil {
		g.all = append(g.all, c)
	}
	return err
}

// Supervise restarts each program that exits, and returns when ctx is done. The exit
// of one program does not affect the others.
func (g *Group) Supervise(ctx context.Context) {
	var running sync.WaitGroup
	for i := range g.all {
		running.Go(func() { g.supervise(ctx, &g.all[i]) })
	}
	running.Wait()
}

// supervise restarts a program after a delay, which doubles if the program exits again
// before it has run for maxRestartDelay.
func (g *Group) supervise(ctx context.Context, child **Child) {
	for delay, began := minRestartDelay, time.Now(); ; delay, began = min(2*delay, maxRestartDelay), time.Now() {
		select {
		case <-ctx.Done():
			return
		case <-(*child).done:
		}
		if time.Since(began) >= maxRestartDelay {
			delay = minRestartDelay
		}
		g.Say("The %s exited (%s), see %s. It is restarted in %v", (*child).Name, (*child).cmd.ProcessState, (*child).Log, delay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		next, err := Start(ctx, (*child).Program)
		if next != nil {
			*child = next
		}
		if err == nil {
			g.Say("The %s runs again", next.Name)
		}
	}
}

// Stop stops the programs, the last one first.
func (g *Group) Stop() error {
	var problems []error
	for _, p := range slices.Backward(g.all) {
		g.Say("Stopping the %s", p.Name)
		problems = append(problems, p.Stop())
	}
	return errors.Join(problems...)
}

// Tail returns the last lines of a log.
func Tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// ownDefaults unsets variables that the shell may have set for another cloud or
// worker.
func ownDefaults() []string {
	var unset []string
	for _, variable := range []string{
		"DATABASE_URL", "SECRET_KEYS", "PUBLIC_URL", "HOST", "TRUSTED_PROXIES", "WORKER_ID", "BROWSERS_DIR", "LOG_FORMAT",
	} {
		unset = append(unset, variable+"=")
	}
	return unset
}
