package proxy_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
)

const (
	realUser     = "robot-5c1d"
	realPassword = "letmein-77aa"
)

// realProxy starts a proxy as distributions have it, which wants the real
// credentials, and returns its URL.
func realProxy(t *testing.T, kind string) string {
	t.Helper()
	port := strconv.Itoa(testenv.FreePort(t))
	var command *exec.Cmd
	switch kind {
	case "http":
		config := filepath.Join(t.TempDir(), "tinyproxy.conf")
		text := fmt.Sprintf("Port %s\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nLogLevel Critical\nBasicAuth %s %s\n", port, realUser, realPassword)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command = exec.Command(program(t, "tinyproxy", "tinyproxy-bin"), "-d", "-c", config)
	case "socks5":
		command = exec.Command(program(t, "microsocks", "microsocks"), "-i", "127.0.0.1", "-p", port, "-u", realUser, "-P", realPassword)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	eventually(t, 10*time.Second, command.Path+" listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return kind + "://127.0.0.1:" + port
}

func program(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; this test needs the package %s", err, pkg)
	}
	return path
}
