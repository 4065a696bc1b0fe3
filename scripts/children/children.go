// Package children runs the programs that a script starts: each is ready before
// the next one starts, writes a log of its own, is ended in order, and does not
// outlive the script.
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
	"syscall"
	"time"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 45 * time.Second
	pollInterval = 50 * time.Millisecond
)

// Build compiles svc-cloud and svc-worker into dir.
func Build(ctx context.Context, dir string) error {
	for _, program := range []string{"cloud", "worker"} {
		command := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "svc-"+program), "./"+program)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("build svc-%s: %w", program, err)
		}
	}
	return nil
}

// FreePort is a port of the loopback that nobody listens on at the moment.
func FreePort(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return strconv.Itoa(port), listener.Close()
}

// Program is what to start.
type Program struct {
	Name        string // for people
	Path        string // of the executable
	Log         string // the file that it appends to
	Health      string // the address that answers 200 once it is ready
	Environment []string
}

// RequireFree is an error unless this program could listen on the port, on all
// addresses and on the loopback. What listens there is somebody else's.
func RequireFree(ctx context.Context, port string) error {
	for _, host := range []string{"", "127.0.0.1"} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %s is in use", port)
		}
		if err != nil {
			return fmt.Errorf("port %s can't be listened on: %w", port, err)
		}
		if err := listener.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Child is a program that was started.
type Child struct {
	Program
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Start starts a program and waits until it is ready. The child is there, to be
// stopped, also when it does not get ready.
func Start(ctx context.Context, p Program) (*Child, error) {
	if err := os.MkdirAll(filepath.Dir(p.Log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c := &Child{Program: p, done: make(chan struct{}), cmd: exec.Command(p.Path)} //nolint:noctx // it is ended by a signal, in order
	c.cmd.Env = slices.Concat(os.Environ(), ownDefaults(), p.Environment)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	// Ctrl-C is ours to pass on, in order; but nothing outlives us.
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
		select { // who answers is the child only while that lives
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
			return fmt.Errorf("the %s did not get ready: %w\n%s", c.Name, ctx.Err(), Tail(c.Log))
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
	return fmt.Errorf("the %s has ended (%s), see %s:\n%s", c.Name, c.cmd.ProcessState, c.Log, Tail(c.Log))
}

// Done is closed when the program has ended, by itself or because it was told
// to.
func (c *Child) Done() <-chan struct{} { return c.done }

// Stop ends the program and waits for it.
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

// Group is programs in the order in which they were started.
type Group struct {
	Say func(format string, args ...any) // told of what is ended
	all []*Child
}

// Start is the function of the same name, for a program of the group.
func (g *Group) Start(ctx context.Context, p Program) error {
	c, err := Start(ctx, p)
	if c != nil {
		g.all = append(g.all, c)
	}
	return err
}

// Wait returns when ctx is done, or with an error when a program ends before.
func (g *Group) Wait(ctx context.Context) error {
	for {
		for _, one := range g.all {
			select {
			case <-one.done:
				return one.ended()
			default:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(4 * pollInterval):
		}
	}
}

// Stop ends the programs, the last one first.
func (g *Group) Stop() error {
	var problems []error
	for _, one := range slices.Backward(g.all) {
		g.Say("Ending the %s", one.Name)
		problems = append(problems, one.Stop())
	}
	return errors.Join(problems...)
}

// Tail is the end of a log.
func Tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// ownDefaults unsets what a shell may have set for another cloud or worker.
func ownDefaults() []string {
	var unset []string
	for _, variable := range []string{
		"DATABASE_URL", "SECRET_KEYS", "PUBLIC_URL", "HOST", "TRUSTED_PROXIES", "WORKER_ID", "BROWSERS_DIR", "LOG_FORMAT",
	} {
		unset = append(unset, variable+"=")
	}
	return unset
}
