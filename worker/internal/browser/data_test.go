package browser_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/isolation"
)

// kept is browser.Data in a directory.
type kept struct {
	dir             string
	restored, saved int
	err             error // of both
}

func newKept(t *testing.T) *kept { return &kept{dir: t.TempDir()} }

func (k *kept) Restore(_ context.Context, into *os.Root) error {
	k.restored++
	if k.err != nil {
		return k.err
	}
	return copyInto(into, os.DirFS(k.dir))
}

func (k *kept) Save(_ context.Context, from *os.Root) error {
	k.saved++
	if k.err != nil {
		return k.err
	}
	if err := os.RemoveAll(k.dir); err != nil {
		return err
	}
	if err := os.Mkdir(k.dir, 0o700); err != nil {
		return err
	}
	into, err := os.OpenRoot(k.dir)
	if err != nil {
		return err
	}
	defer into.Close()
	return copyInto(into, from.FS())
}

func copyInto(into *os.Root, from fs.FS) error {
	return fs.WalkDir(from, ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return into.MkdirAll(path, 0o700)
		case e.Type() == fs.ModeSymlink:
			target, err := fs.ReadLink(from, path)
			if err != nil {
				return err
			}
			return into.Symlink(target, path)
		case !e.Type().IsRegular():
			return nil
		}
		raw, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		return into.WriteFile(path, raw, 0o600)
	})
}

// plainAndSealed runs a test with browsers that are started plainly, and with
// browsers in rooms of their own.
func plainAndSealed(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Run("plain", func(t *testing.T) { test(t, newRig(t)) })
	t.Run("sealed", func(t *testing.T) { test(t, newSealedRig(t)) })
}

func newSealedRig(t *testing.T, without ...string) *rig {
	t.Helper()
	return newRigWith(t, func(o *browser.Options) {
		o.Isolation = &isolation.Options{Disk: 1 << 30, Processes: 2000, Without: without}
	})
}

func TestKeptDataOutlivesTheBrowser(t *testing.T) {
	plainAndSealed(t, func(t *testing.T, r *rig) {
		site, data := newSite(t), newKept(t)
		for i, script := range []string{`document.cookie = "k=v; max-age=3600"`, `document.cookie`} {
			spec := r.spec([]string{"first", "second"}[i])
			spec.Data = data
			b := r.launch(t, spec)
			c := dial(t, b)
			page := c.open(t, site.URL+"/")
			var cookie string
			eventually(t, 5*time.Second, "the page", func() bool {
				var at string
				c.eval(t, page, `location.href + document.readyState`, &at)
				return at == site.URL+"/complete"
			})
			c.eval(t, page, script, &cookie)
			if !strings.Contains(cookie, "k=v") {
				t.Errorf("launch %d: cookie %q", i, cookie)
			}
			if err := b.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if data.saved != i+1 {
				t.Errorf("saved %d times after launch %d", data.saved, i+1)
			}
		}
		if _, err := os.Stat(filepath.Join(data.dir, "Default")); err != nil {
			t.Errorf("the kept directory: %v", err)
		}
		r.assertNothingLeft(t)
	})
}

func TestKeptDataIsFreedOfTheLockOfADeadMachine(t *testing.T) {
	plainAndSealed(t, func(t *testing.T, r *rig) {
		spec, data := r.spec("freed"), newKept(t)
		if err := os.Symlink("elsewhere-1", filepath.Join(data.dir, "SingletonLock")); err != nil {
			t.Fatal(err)
		}
		spec.Data = data
		r.launch(t, spec)
	})
}

func TestDataIsKeptAfterACleanEndOnly(t *testing.T) {
	plainAndSealed(t, func(t *testing.T, r *rig) {
		spec, data := r.spec("crashed"), newKept(t)
		spec.Data = data
		b := r.launch(t, spec)
		if err := syscall.Kill(b.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := b.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if data.restored != 1 || data.saved != 0 {
			t.Errorf("restored %d times, saved %d times", data.restored, data.saved)
		}
		r.assertNothingLeft(t)
	})
}

func TestDataThatCannotBeRestoredFailsTheLaunch(t *testing.T) {
	plainAndSealed(t, func(t *testing.T, r *rig) {
		spec, data := r.spec("unrestored"), newKept(t)
		data.err = errors.New("no disk")
		spec.Data = data
		if _, err := r.Launch(t.Context(), spec); !errors.Is(err, data.err) {
			t.Errorf("got %v", err)
		}
		if data.saved != 0 {
			t.Error("saved all the same")
		}
		r.assertNothingLeft(t)
	})
}
