package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// maxAnswer is the maximum size of a peer's answer in bytes.
const maxAnswer = 16 << 20

// peer is another tool that launches browsers, in a process of scripts/bench/peers.
type peer struct {
	name    string // with its version
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Scanner
	missing error // why the tool cannot be measured
}

// peers starts all tools. A tool that cannot be started is marked as missing, and
// the table shows the reason.
func (e *environment) peers(ctx context.Context) (all []*peer) {
	program := filepath.Join(e.dir, "peers")
	unbuilt := goBuild(ctx, "scripts/bench/peers", ".", program)
	for _, p := range []struct{ name, program, argument string }{
		{"rod Manager", program, "rod"},
		{"chromedp ExecAllocator", program, "chromedp"},
		{"chromedriver", program, "chromedriver"},
		{"puppeteer", "node", "puppeteer"},
		{"playwright launchServer", "node", "playwright-launch-server"},
		{"playwright run-server", "node", "playwright-run-server"},
	} {
		arguments := []string{p.argument}
		var err error
		if p.program == "node" {
			arguments = []string{"scripts/bench/peers/peers.mjs", p.argument}
		} else {
			err = unbuilt
		}
		tool := &peer{name: p.name}
		if err == nil {
			err = tool.start(ctx, e, p.program, arguments, e.peerSetup())
		}
		if err != nil {
			tool.missing = err
			tool.stop()
		}
		all = append(all, tool)
	}
	return all
}

// peerSetup returns the setup of the peers that measure single launches.
func (e *environment) peerSetup() map[string]any {
	driver, _ := exec.LookPath("chromedriver")
	return map[string]any{"chromium": e.build.path, "driver": driver, "page": e.page, "sandbox": os.Geteuid() != 0}
}

// start starts the process and sends the setup. The last argument must differ between
// peers.
func (p *peer) start(ctx context.Context, e *environment, program string, arguments []string, setup map[string]any) (err error) {
	home := filepath.Join(e.dir, "peer-"+arguments[len(arguments)-1])
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	p.cmd = exec.Command(program, arguments...) //nolint:noctx // stop ends it
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8"}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	log, err := os.Create(home + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return err
	}
	p.stdout = bufio.NewScanner(out)
	p.stdout.Buffer(nil, maxAnswer)
	var ready struct{ Version string }
	if err := p.request(ctx, readyTimeout, setup, &ready); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w: %s", err, said)
	}
	p.name += " " + strings.TrimPrefix(ready.Version, "v")
	return nil
}

// request sends a line and reads the response, within a time limit.
func (p *peer) request(ctx context.Context, limit time.Duration, line, into any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	if err := json.NewEncoder(p.stdin).Encode(line); err != nil {
		return err
	}
	if !p.stdout.Scan() {
		return errors.Join(errors.New("no response"), p.stdout.Err(), ctx.Err())
	}
	return json.Unmarshal(p.stdout.Bytes(), into)
}

// visit measures one launch.
func (p *peer) visit(ctx context.Context) (v visit, err error) {
	if err := awaitIdle(ctx); err != nil {
		return v, err
	}
	var answer struct {
		Answered, Loaded float64
		Error            string
	}
	if err := p.request(ctx, readyTimeout, struct{}{}, &answer); err != nil {
		return v, fmt.Errorf("%s: %w", p.name, err)
	}
	if answer.Error != "" {
		return v, fmt.Errorf("%s: %s", p.name, answer.Error)
	}
	return visit{answered: answer.Answered, loaded: answer.Loaded}, nil
}

// stop ends the process and its remaining descendants.
func (p *peer) stop() {
	if p.cmd == nil {
		return
	}
	left := descendants(p.cmd.Process.Pid) // those of an ended process cannot be found
	_ = p.stdin.Close()
	ended := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	ended.Stop()
	now := processes()
	for _, q := range left {
		if q.alive(now) {
			_ = syscall.Kill(q.pid, syscall.SIGKILL)
		}
	}
	p.cmd = nil
}
