package browser_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// directoryData stores browser.Data in a directory.
type directoryData struct {
	dir             string
	restored, saved int
	err             error // returned by Restore and Save
}

func newDirectoryData(t *testing.T) *directoryData { return &directoryData{dir: t.TempDir()} }

func (k *directoryData) Restore(_ context.Context, into *os.Root) error {
	k.restored++
	if k.err != nil {
		return k.err
	}
	return copyInto(into, os.DirFS(k.dir))
}

func (k *directoryData) Save(_ context.Context, root *os.Root) error {
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
	return copyInto(into, root.FS())
}

func copyInto(into *os.Root, source fs.FS) error {
	return fs.WalkDir(source, ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return into.MkdirAll(path, 0o700)
		case e.Type() == fs.ModeSymlink:
			target, err := fs.ReadLink(source, path)
			if err != nil {
				return err
			}
			return into.Symlink(target, path)
		case !e.Type().IsRegular():
			return nil
		}
		raw, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		return into.WriteFile(path, raw, 0o600)
	})
}

// withAndWithoutIsolation runs a test without and with isolation.
func withAndWithoutIsolation(t *testing.T, test func(t *testing.T, r *fixture)) {
	t.Run("not isolated", func(t *testing.T) { test(t, newFixture(t)) })
	t.Run("isolated", func(t *testing.T) { test(t, newIsolatedFixture(t)) })
}

func newIsolatedFixture(t *testing.T, without ...string) *fixture {
	t.Helper()
	return newFixtureWith(t, func(o *browser.Options) {
		o.Isolation = &sandbox.Options{Disk: 1 << 30, Processes: 2000, Disabled: without}
	})
}

// openLoaded opens a page and waits until it is loaded.
func (c client) openLoaded(t *testing.T, url string) (session string) {
	t.Helper()
	session = c.open(t, url)
	eventually(t, 5*time.Second, "the page", func() bool {
		var location string
		c.eval(t, session, `location.href + document.readyState`, &location)
		return location == url+"complete"
	})
	return session
}

// evalWithData launches a browser with persistent data and returns it, with the result of a script in a page.
func (r *fixture) evalWithData(t *testing.T, id string, data browser.Data, url, script string) (b *browser.Browser, result string) {
	t.Helper()
	spec := r.spec(id)
	spec.Data = data
	b = r.launch(t, spec)
	c := dial(t, b)
	c.eval(t, c.openLoaded(t, url), script, &result)
	return b, result
}

func TestData_OutlivesBrowser(t *testing.T) {
	withAndWithoutIsolation(t, func(t *testing.T, r *fixture) {
		site, data := newSite(t), newDirectoryData(t)
		for i, script := range []string{`document.cookie = "k=v; max-age=3600"`, `document.cookie`} {
			b, cookie := r.evalWithData(t, []string{"first", "second"}[i], data, site.URL+"/", script)
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
			t.Errorf("the saved data: %v", err)
		}
		r.assertNoLeaks(t)
	})
}

// TestData_KeepsLastLocalStorage ends a browser directly after a page has stored something, while
// the process that writes it is slow.
func TestData_KeepsLastLocalStorage(t *testing.T) {
	withAndWithoutIsolation(t, func(t *testing.T, r *fixture) {
		site, data := newSite(t), newDirectoryData(t)
		for i, script := range []string{`localStorage.last = 'kept'`, `localStorage.last ?? 'lost'`} {
			b, got := r.evalWithData(t, []string{"first", "second"}[i], data, site.URL+"/", script)
			if got != "kept" {
				t.Errorf("what the page stored last is %s", got)
			}
			services := processesWhere(func(pid, _, uid int) bool {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				return uid == b.UID() && bytes.Contains(line, []byte("storage.mojom.StorageService"))
			})
			if len(services) != 1 {
				t.Fatalf("%d processes write the storage, want 1", len(services))
			}
			if err := syscall.Kill(services[0], syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(700*time.Millisecond, func() { _ = syscall.Kill(services[0], syscall.SIGCONT) })
			if err := b.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestData_RemovesStaleLock(t *testing.T) {
	withAndWithoutIsolation(t, func(t *testing.T, r *fixture) {
		spec, data := r.spec("freed"), newDirectoryData(t)
		if err := os.Symlink("elsewhere-1", filepath.Join(data.dir, "SingletonLock")); err != nil {
			t.Fatal(err)
		}
		spec.Data = data
		r.launch(t, spec)
	})
}

func TestData_SavedAfterCleanExitOnly(t *testing.T) {
	withAndWithoutIsolation(t, func(t *testing.T, r *fixture) {
		spec, data := r.spec("crashed"), newDirectoryData(t)
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
		r.assertNoLeaks(t)
	})
}

func TestData_RestoreErrorFailsLaunch(t *testing.T) {
	withAndWithoutIsolation(t, func(t *testing.T, r *fixture) {
		spec, data := r.spec("unrestored"), newDirectoryData(t)
		data.err = errors.New("no disk")
		spec.Data = data
		if _, err := r.Launch(t.Context(), spec); !errors.Is(err, data.err) {
			t.Errorf("got %v", err)
		}
		if data.saved != 0 {
			t.Error("data was saved after a failed restore")
		}
		r.assertNoLeaks(t)
	})
}

// TestKill_GivesEachBrowserTimeToClose stops two browsers. The first hangs until its
// time limit, then the second closes.
func TestKill_GivesEachBrowserTimeToClose(t *testing.T) {
	log := &testenv.Log{}
	r := newFixtureWith(t, func(o *browser.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	browser.SetSerialClose(r.Launcher, 3*time.Second)
	var both [2]*browser.Browser
	var data [2]*directoryData
	for i, name := range []string{"hangs", "waits"} {
		spec := r.spec(name)
		data[i] = newDirectoryData(t)
		spec.Data = data[i]
		both[i] = r.launch(t, spec)
		if err := syscall.Kill(both[i].PID(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	var ends sync.WaitGroup
	defer ends.Wait()
	for _, b := range both {
		ends.Go(func() {
			if err := b.Kill(context.Background()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(100 * time.Millisecond) // in this order
	}
	<-both[0].Done()
	time.Sleep(250 * time.Millisecond)
	if err := syscall.Kill(both[1].PID(), syscall.SIGCONT); err != nil {
		t.Error(err)
	}
	ends.Wait()
	if data[0].saved != 0 || data[1].saved != 1 {
		t.Errorf("saved %d and %d times, want only the second", data[0].saved, data[1].saved)
	}
	if logged := log.String(); strings.Count(logged, `level=WARN msg="browser data not saved" launchId=hangs error="the browser did not close by itself: killed by the worker"`) != 1 ||
		strings.Contains(logged, "launchId=waits") {
		t.Errorf("logged:\n%s", logged)
	}
}
