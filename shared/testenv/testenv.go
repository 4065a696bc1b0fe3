// Package testenv has helpers for tests with real servers and browsers.
package testenv

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// PublicTempDir returns a temporary directory that other users can access, unlike
// t.TempDir: if the tests run as root, PostgreSQL and the browsers run as other
// users. It is removed when the test ends.
func PublicTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "svc-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// FreePort returns a free port of the loopback interface. It is below the ports that the
// kernel gives to connections, so that a server can stop and use it again.
func FreePort(t testing.TB) int {
	t.Helper()
	const lowest, number = 20_000, 12_000
	var err error
	for range 100 {
		port := lowest + rand.IntN(number)
		var listener net.Listener
		if listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatalf("no port is free: %v", err)
	return 0
}

// Eventually waits until ok returns true, and fails the test after 30 seconds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: did not happen", what)
		}
	}
}

// CopyTestBinary copies the running test binary to dir, where other users may run
// it, and returns its path.
func CopyTestBinary(t testing.TB, dir string) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "test")
	if err := os.WriteFile(program, raw, 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return program
}
