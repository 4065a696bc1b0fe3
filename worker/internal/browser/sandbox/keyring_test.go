package sandbox_test

import (
	"fmt"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// addKey and findKey return scripts that call the keyring system calls.
func addKey(ring int) string {
	return fmt.Sprintf(`perl -e '@k = ("user", "svc-test", "secret"); print STDERR "added" if syscall(%d, @k, 6, %d) >= 0'`, unix.SYS_ADD_KEY, ring)
}

func findKey(ring int) string {
	return fmt.Sprintf(`perl -e '@k = ("user", "svc-test"); print STDERR syscall(%d, %d, %d, @k, 0) < 0 ? "none" : "mine"'`,
		unix.SYS_KEYCTL, unix.KEYCTL_SEARCH, ring)
}

func TestSandbox_HidesWorkerKeyring(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread gets a separate session keyring
	h := open(t, nil)
	h.start = func(cmd *exec.Cmd) (func(), error) {
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}, nil
	}
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.AddKey("user", "svc-test", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Fatal(err)
	}
	if output := h.run(t, findKey(unix.KEY_SPEC_SESSION_KEYRING)); output != "none" {
		t.Errorf("searching the worker's session keyring returned %q", output)
	}
}

func TestSandbox_ClearsUserKeyrings(t *testing.T) {
	h := open(t, nil)
	for _, ring := range []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING} {
		if output := h.run(t, addKey(ring)); output != "added" {
			t.Fatalf("keyring %d: %s", ring, output)
		}
		if output := h.run(t, findKey(ring)); output != "none" {
			t.Errorf("searching keyring %d in the next sandbox returned %q", ring, output)
		}
	}
}
