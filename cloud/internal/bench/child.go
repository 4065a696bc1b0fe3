package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a server process.
type child struct {
	name    string
	address string // host:port
	cmd     *exec.Cmd
	done    chan struct{}
	log     string
}

const (
	readyTimeout = time.Minute
	stopTimeout  = 20 * time.Second
)

// start runs a program that logs to a file, like a service.
func (s *testEnv) start(c *child, environment ...string) (*child, error) {
	c.done, c.log = make(chan struct{}), filepath.Join(s.dir, c.name+".log")
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, environment...)
	c.cmd.Stderr = log
	// a separate process group, so that Ctrl-C reaches this process first
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = c.cmd.Wait(); close(c.done) }()
	return c, nil
}

// openCloud starts svc-cloud, once.
func (s *testEnv) openCloud(ctx context.Context) (*child, error) {
	if s.cloud != nil {
		return s.cloud, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it returns at once
	if err != nil {
		return nil, err
	}
	c := &child{name: "svc-cloud", address: listener.Addr().String()}
	_ = listener.Close()
	_, port, err := net.SplitHostPort(c.address)
	if err != nil {
		return nil, err
	}
	c.cmd = exec.Command(s.program()) //nolint:noctx // stop ends it, in order
	if s.cloud, err = s.start(c, "HOST=127.0.0.1", "PORT="+port, "DATABASE_URL="+s.dsn, "DATA_DIR="+filepath.Join(s.dir, "cloud"),
		"CPU_PROFILE="+s.cloudProfile()); err != nil {
		return nil, err
	}
	return s.cloud, s.cloud.ready(ctx)
}

// startSelf starts this program as one of its other servers, which prints its address
// on the first line.
func (s *testEnv) startSelf(ctx context.Context, name string, t tenant) (*child, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	input, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	c := &child{name: name, cmd: exec.Command(own, name)} //nolint:noctx // stop ends it, in order
	c.cmd.Stdin = strings.NewReader(string(input) + "\n")
	out, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c.cmd.Stdout = output
	c, err = s.start(c)
	_ = output.Close()
	if err != nil {
		return nil, err
	}
	_ = out.SetReadDeadline(time.Now().Add(readyTimeout))
	defer context.AfterFunc(ctx, func() { _ = out.SetReadDeadline(time.Now()) })()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start: %w\n%s", name, err, c.logTail()), c.stop())
	}
	c.address = strings.TrimSpace(line)
	return c, nil
}

// ready waits until the server reports that it is healthy.
func (c *child) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+"/health", nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s ended: %s\n%s", c.name, c.cmd.ProcessState, c.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", c.name, ctx.Err(), c.logTail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// logTail returns the end of the log.
func (c *child) logTail() string {
	log, _ := os.ReadFile(c.log)
	return string(log[max(0, len(log)-4000):])
}

func (c *child) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
		return nil
	case <-time.After(stopTimeout):
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s had to be killed", c.name)
	}
}

// cpu returns the CPU time of the process, user and system, from Linux's per-process
// clock.
func (c *child) cpu() (time.Duration, error) {
	const ofAllThreads = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^c.cmd.Process.Pid<<3|ofAllThreads), &used); err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", c.name, err)
	}
	return time.Duration(used.Nano()), nil
}

// withCPU is a side that also measures the server's CPU time per operation.
func (c *child) withCPU(measure side) side {
	return func(ctx context.Context) (load, error) {
		before, err := c.cpu()
		if err != nil {
			return load{}, err
		}
		began := time.Now()
		l, err := measure(ctx)
		if err != nil {
			return l, err
		}
		done := l.perSecond * time.Since(began).Seconds()
		after, err := c.cpu()
		l.cpuMicros = float64((after - before).Microseconds()) / done
		return l, err
	}
}
