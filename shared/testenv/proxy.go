package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Proxy is a proxy of a Linux distribution on the loopback interface. It requires
// credentials.
type Proxy struct {
	URL                string // without credentials
	Username, Password string
	log                string
}

// StartProxy starts tinyproxy for the scheme http, or microsocks for socks5. The
// proxy is stopped when the test ends.
func StartProxy(t testing.TB, scheme string) *Proxy {
	t.Helper()
	dir, port := t.TempDir(), strconv.Itoa(FreePort(t))
	address := net.JoinHostPort("127.0.0.1", port)
	p := &Proxy{URL: scheme + "://" + address, Username: "robot-5c1d", Password: "letmein-" + port, log: filepath.Join(dir, "proxy.log")}
	ctx := context.WithoutCancel(t.Context()) // the cleanup stops it
	var command *exec.Cmd
	switch scheme {
	case "http":
		config := filepath.Join(dir, "tinyproxy.conf")
		text := fmt.Sprintf("Port %s\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nLogLevel Connect\nBasicAuth %s %s\n", port, p.Username, p.Password)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command = exec.CommandContext(ctx, lookProgram(t, "tinyproxy", "tinyproxy-bin"), "-d", "-c", config)
	case "socks5":
		command = exec.CommandContext(ctx, lookProgram(t, "microsocks", "microsocks"), "-i", "127.0.0.1", "-p", port, "-u", p.Username, "-P", p.Password)
	default:
		t.Fatalf("no proxy speaks %s", scheme)
	}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	Eventually(t, command.Path+" listens", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return p
}

// Log returns the log of the proxy, which has a line with the target of each
// connection.
func (p *Proxy) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func lookProgram(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; this test needs the package %s", err, pkg)
	}
	return path
}
