package profiledata_test

import (
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

const smallDiskVariable = "PROFILEDATA_TEST_SMALL_DISK"

// TestSave_FullDiskKeepsLastVersion runs itself in a mount namespace with a disk of
// one megabyte.
func TestSave_FullDiskKeepsLastVersion(t *testing.T) {
	if dir := os.Getenv(smallDiskVariable); dir != "" {
		onSmallDisk(t, dir)
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), smallDiskVariable+"="+t.TempDir())
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		again.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func onSmallDisk(t *testing.T, dir string) {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"),
	)
	if err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, func(o *profiledata.LocalOptions) { o.Dir = filepath.Join(dir, "profiles") })
	r.save(t, sampleTree(1))
	noise := make([]byte, 2<<20)
	_, _ = rand.New(rand.NewSource(1)).Read(noise)
	tooMuch := sampleTree(2)
	tooMuch["Default/History"] = file(string(noise))
	c := r.claim(t)
	restore(t, c)
	if err := c.Save(t.Context(), tooMuch.write(t)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("save on a full disk: got error %v", err)
	}
	c.Release()
	if left, _ := filepath.Glob(filepath.Join(r.dir, "*")); len(left) != 3 { // the lock, and version 1 with its objects
		t.Errorf("leaked %v", left)
	}
	assertTree(t, r.restored(t), sampleTree(1))
	r.save(t, sampleTree(3))
	assertTree(t, r.restored(t), sampleTree(3))

	// A full disk at the target of a restore does not mean that the snapshot is
	// damaged.
	half := sampleTree(4)
	half["Default/History"] = file(string(make([]byte, 2<<20)))
	r.save(t, half)
	c = r.claim(t)
	into, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	if err := c.Restore(t.Context(), into); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("restore on a full disk: got error %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("leaked %v", left)
	}
	c.Release()
	assertTree(t, r.restored(t), half)
}
