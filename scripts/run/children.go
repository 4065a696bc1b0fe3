package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 45 * time.Second
)

func build(ctx context.Context) error {
	for _, program := range []string{"cloud", "worker"} {
		command := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join("bin", "svc-"+program), "./"+program)
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

// children are the programs that run, in the order in which they were started.
type children struct {
	all []*child
}

type child struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
}

// start starts a program with its log in a file, and waits until the address
// answers 200.
func (c *children) start(ctx context.Context, name, program, health string, environment ...string) error {
	if err := os.MkdirAll(dataDir(), 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dataDir(), name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	started := &child{name: name, log: log.Name(), done: make(chan struct{}), cmd: exec.Command(filepath.Join("bin", program))} //nolint:noctx // it is ended by a signal, in order
	started.cmd.Env = slices.Concat(os.Environ(), ownDefaults(), environment)
	started.cmd.Stdout, started.cmd.Stderr = log, log
	// Ctrl-C is ours to pass on, in order; but nothing outlives us.
	started.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := started.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		started.err = started.cmd.Wait()
		close(started.done)
	}()
	c.all = append(c.all, started)
	return started.ready(ctx, health)
}

func (c *child) ready(ctx context.Context, health string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if healthy(ctx, health) {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("the %s ended: %w\n%s", c.name, c.err, c.tail())
		case <-ctx.Done():
			return fmt.Errorf("the %s did not get ready: %w\n%s", c.name, ctx.Err(), c.tail())
		case <-time.After(50 * time.Millisecond):
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

// tail is the end of the child's log.
func (c *child) tail() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// wait returns when ctx is done, or with an error when a program ends before.
func (c *children) wait(ctx context.Context) error {
	for {
		for _, one := range c.all {
			select {
			case <-one.done:
				return fmt.Errorf("the %s has ended: %w\n%s", one.name, one.err, one.tail())
			default:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// stop ends the programs, the last one first, and waits for each.
func (c *children) stop() error {
	var problems []error
	for i := len(c.all) - 1; i >= 0; i-- {
		one := c.all[i]
		say("Ending the %s", one.name)
		_ = one.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-one.done:
		case <-time.After(stopTimeout):
			_ = one.cmd.Process.Kill()
			<-one.done
			problems = append(problems, fmt.Errorf("the %s had to be killed", one.name))
		}
	}
	return errors.Join(problems...)
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
