// Package testenv has what tests of real servers and browsers need of the
// machine.
package testenv

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// PublicTempDir is a directory that other users can reach, which t.TempDir is
// not: as root, PostgreSQL and the browsers run as users of their own. It is
// removed with the test.
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

// FreePort is a port of the loopback that nobody listens on at the moment.
func FreePort(t testing.TB) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// Eventually waits for something to be so, and fails the test after 30 seconds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: did not happen", what)
		}
	}
}

// CopyTestBinary copies the program that runs the tests into dir, where other users
// may run it, and returns its path.
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
