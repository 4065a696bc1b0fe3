package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/browser-svc/svc/scripts/children"
)

// haproxy forwards bytes to a browser's socket. It shows the cost of a good relay
// without other functions.
type haproxy struct {
	version string
	port    string // in the browser's network namespace
	cmd     *exec.Cmd
}

// startHAProxy starts HAProxy in the network namespace of a browser.
func (e *environment) startHAProxy(ctx context.Context, browser int, debugPort string) (*haproxy, error) {
	port, err := children.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(e.dir, "haproxy.cfg")
	config := fmt.Sprintf(`global
  maxconn 100
defaults
  mode tcp
  timeout connect 5s
  timeout client 1m
  timeout server 1m
listen browser
  bind 127.0.0.1:%s
  server browser 127.0.0.1:%s
`, port, debugPort)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	said, err := exec.CommandContext(ctx, "haproxy", "-v").Output()
	if err != nil {
		return nil, fmt.Errorf("haproxy (scripts/need haproxy): %w", err)
	}
	words := strings.Fields(string(said)) // HAProxy version 2.6.12-1+deb12u4 2026/01/01 - https://haproxy.org/
	if len(words) < 3 {
		return nil, fmt.Errorf("haproxy -v: %q", said)
	}
	version, _, _ := strings.Cut(words[2], "-")
	p := &haproxy{version: "HAProxy " + version, port: port}
	p.cmd = exec.Command("haproxy", "-db", "-f", file) //nolint:noctx // stop ends it
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = os.Stderr
	if err := inNetworkNamespace(browser, p.cmd.Start); err != nil {
		return nil, err
	}
	return p, p.ready(ctx, dialInNetwork(browser, port))
}

// ready waits until HAProxy listens.
func (p *haproxy) ready(ctx context.Context, connect func(context.Context) (net.Conn, error)) error {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := connect(ctx)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) || ctx.Err() != nil {
			p.stop()
			return fmt.Errorf("wait for haproxy: %w", err)
		}
	}
}

func (p *haproxy) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
