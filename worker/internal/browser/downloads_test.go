package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// newDownloadSite serves /<size>/<name> as a download of that many bytes. A size with a
// minus stays incomplete until the test ends.
func newDownloadSite(t *testing.T) string {
	t.Helper()
	site := testenv.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, name, _ := strings.Cut(r.URL.Path[1:], "/")
		size, err := strconv.Atoi(text)
		if err != nil {
			_, _ = io.WriteString(w, "<!doctype html><title>page</title>")
			return
		}
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(bytes.Repeat([]byte{'x'}, max(size, -size)))
		if size < 0 {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	return site.URL
}

// download makes a page download an address.
func (c client) download(t *testing.T, page, address string) {
	t.Helper()
	eventually(t, 10*time.Second, "a loaded page", func() (loaded bool) {
		c.eval(t, page, `document.body !== null && location.protocol === "http:"`, &loaded)
		return loaded
	})
	c.eval(t, page, fmt.Sprintf(`{const a = document.createElement("a"); a.href = %q; document.body.append(a); a.click()}`, address), nil)
}

// awaitFile waits for a file in a state and returns it.
func awaitFile(t *testing.T, b *browser.Browser, name string, state files.State) files.File {
	t.Helper()
	var found files.File
	eventually(t, 20*time.Second, fmt.Sprintf("the file %s is %s", name, state), func() bool {
		all := b.Files().List(name)
		if len(all) > 0 {
			found = all[0]
		}
		return len(all) > 0 && found.State == state && (state != files.Complete || found.SHA256 != "")
	})
	return found
}

// TestDownloads_AreCaptured downloads with clients that ask for paths, in a new context,
// and after clients that have made settings have left.
func TestDownloads_AreCaptured(t *testing.T) {
	for name, without := range map[string][]string{"isolated": nil, "without namespaces": {sandbox.PrivateFiles}} {
		t.Run(name, func(t *testing.T) {
			r, site := newIsolatedFixture(t, without...), newDownloadSite(t)
			b := r.launch(t, r.spec("captured"))
			first := dial(t, b)
			first.download(t, first.visit(t, site), site+"/1000/without settings.bin")
			got := awaitFile(t, b, "without settings.bin", files.Complete)
			if got.Size != 1000 || got.Origin != site || got.Source != files.Download || got.Path != "" {
				t.Errorf("got %+v", got)
			}
			if !r.isolated {
				return // its debugging port is Chromium's own
			}
			for i, behavior := range []string{"allow", "allowAndName", "default"} {
				c := dial(t, b)
				starts := c.Subscribe(10, "Browser.downloadWillBegin")
				c.call(t, "", "Browser.setDownloadBehavior", map[string]any{"behavior": behavior, "downloadPath": "/no/such/path", "eventsEnabled": true})
				c.download(t, c.visit(t, site), site+"/2000/"+behavior)
				got := awaitFile(t, b, behavior, files.Complete)
				var event struct{ GUID string }
				unmarshal(t, (<-starts.Events()).Params, &event)
				if event.GUID != got.ID || got.Size != 2000 {
					t.Errorf("%s: the client's guid is %s, the file is %+v", behavior, event.GUID, got)
				}
				page := c.visit(t, site)
				c.call(t, page, "Page.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": "/tmp"})
				c.download(t, page, fmt.Sprintf("%s/3000/page %d", site, i))
				awaitFile(t, b, fmt.Sprintf("page %d", i), files.Complete)
				_ = c.Close()
				after := fmt.Sprintf("after %d", i)
				first.download(t, first.visit(t, site), site+"/4000/"+after)
				if got := awaitFile(t, b, after, files.Complete); got.Stored != got.ID {
					t.Errorf("Chromium's own settings stored %s as %s", after, got.Stored)
				}
			}
			var target struct{ BrowserContextID, TargetID string }
			unmarshal(t, first.call(t, "", "Target.createBrowserContext", nil), &target)
			unmarshal(t, first.call(t, "", "Target.createTarget", map[string]any{"url": site, "browserContextId": target.BrowserContextID}), &target)
			first.download(t, first.attach(t, target.TargetID), site+"/5000/in a context")
			awaitFile(t, b, "in a context", files.Complete)
		})
	}
}

// TestDownloads_OfChromiumsDefaultAreFound downloads as if a client had reset the settings
// in a way that the worker does not see.
func TestDownloads_OfChromiumsDefaultAreFound(t *testing.T) {
	r, site := newIsolatedFixture(t), newDownloadSite(t)
	b := r.launch(t, r.spec("default"))
	if err := b.CDP().Call(t.Context(), "", "Browser.setDownloadBehavior", map[string]any{"behavior": "default", "eventsEnabled": true}, nil); err != nil {
		t.Fatal(err)
	}
	c := dial(t, b)
	c.download(t, c.visit(t, site), site+"/1000/a name.bin")
	if got := awaitFile(t, b, "a name.bin", files.Complete); got.Stored != "a name.bin" || got.Size != 1000 {
		t.Errorf("got %+v", got)
	}
}

func TestDownloads_DenyStays(t *testing.T) {
	r, site := newIsolatedFixture(t).withShell(t), newDownloadSite(t)
	b := r.launch(t, r.spec("denied"))
	c := dial(t, b)
	c.call(t, "", "Browser.setDownloadBehavior", map[string]any{"behavior": "deny"})
	c.download(t, c.visit(t, site), site+"/1000/denied")
	awaitFile(t, b, "denied", files.Canceled)
	_ = c.Close()
	c = dial(t, b)
	c.download(t, c.visit(t, site), site+"/1000/allowed")
	awaitFile(t, b, "allowed", files.Complete)
}

func TestDownloads_EndAtQuota(t *testing.T) {
	r, site := newIsolatedFixture(t).withShell(t), newDownloadSite(t)
	b := r.launch(t, r.spec("quota"))
	c := dial(t, b)
	ended := c.Subscribe(100, "Browser.downloadProgress")
	c.call(t, "", "Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": "/tmp", "eventsEnabled": true})
	page := c.visit(t, site)
	c.download(t, page, site+"/40000000/fits")
	kept := awaitFile(t, b, "fits", files.Complete)
	c.download(t, page, site+"/-40000000/does not fit")
	refused := awaitFile(t, b, "does not fit", files.QuotaExceeded)
	for event := range ended.Events() {
		var e struct{ GUID, State string }
		unmarshal(t, event.Params, &e)
		if e.GUID == refused.ID && e.State == "canceled" {
			break
		}
	}
	eventually(t, 5*time.Second, "the refused download is removed", func() bool { return b.Files().Usage() < 41_000_000 })
	if err := b.Files().Delete(kept.ID); err != nil {
		t.Fatal(err)
	}
	c.download(t, page, site+"/40000000/fits again")
	awaitFile(t, b, "fits again", files.Complete)
}

// TestUploads_AreReadable checks an upload in a file input, and that the browser cannot
// change it.
func TestUploads_AreReadable(t *testing.T) {
	for name, without := range map[string][]string{"isolated": nil, "without namespaces": {sandbox.PrivateFiles}} {
		t.Run(name, func(t *testing.T) {
			r := newIsolatedFixture(t, without...).withShell(t)
			b := r.launch(t, r.spec("uploads"))
			added, err := b.Files().Add("a file.txt", 7, strings.NewReader("content"))
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(added.Path) != "a file.txt" {
				t.Errorf("the path is %s", added.Path)
			}
			c := dial(t, b)
			page := c.open(t, "about:blank")
			c.eval(t, page, `document.body.innerHTML = "<input type=file>"`, nil)
			var node struct{ Root struct{ NodeID int } }
			unmarshal(t, c.call(t, page, "DOM.getDocument", map[string]any{}), &node)
			var input struct{ NodeID int }
			unmarshal(t, c.call(t, page, "DOM.querySelector", map[string]any{"nodeId": node.Root.NodeID, "selector": "input"}), &input)
			c.call(t, page, "DOM.setFileInputFiles", map[string]any{"nodeId": input.NodeID, "files": []string{added.Path}})
			var text string
			c.eval(t, page, `document.querySelector("input").files[0].text()`, &text)
			if text != "content" {
				t.Errorf("the page reads %q", text)
			}
		})
	}
}

// TestFiles_AreRestricted checks how the shared directory is mounted.
func TestFiles_AreRestricted(t *testing.T) {
	r := newIsolatedFixture(t).withShell(t)
	b := r.launch(t, r.spec("mounted"))
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[1] == sandbox.FilesDir {
			for _, option := range []string{"rw", "nosuid", "nodev", "noexec"} {
				if !strings.Contains(","+fields[3]+",", ","+option+",") {
					t.Errorf("mounted without %s: %s", option, line)
				}
			}
			return
		}
	}
	t.Errorf("not mounted:\n%s", mounts)
}

// TestFollow_EndsWithDownload follows downloads that complete, end and are replaced.
func TestFollow_EndsWithDownload(t *testing.T) {
	r, site := newIsolatedFixture(t).withShell(t), newDownloadSite(t)
	b := r.launch(t, r.spec("followed"))
	c := dial(t, b)
	page := c.visit(t, site)
	c.download(t, page, site+"/-3000000/endless")
	f := awaitFile(t, b, "endless", files.InProgress)
	read, write := io.Pipe()
	followed := make(chan error, 1)
	go func() { followed <- b.Files().Follow(context.WithoutCancel(t.Context()), f.ID, write) }()
	if _, err := io.CopyN(io.Discard, read, 1_000_000); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	c.call(t, "", "Browser.cancelDownload", map[string]any{"guid": f.ID})
	if err := <-followed; err == nil {
		t.Error("a canceled download ended like a complete one")
	}
	awaitFile(t, b, "endless", files.Canceled)
}

// TestOpen_RefusesWhatBrowserPlants replaces a complete download as a compromised browser
// can.
func TestOpen_RefusesWhatBrowserPlants(t *testing.T) {
	r, site := newIsolatedFixture(t).withShell(t), newDownloadSite(t)
	b := r.launch(t, r.spec("planted"))
	c := dial(t, b)
	c.download(t, c.visit(t, site), site+"/1000/file")
	f := awaitFile(t, b, "file", files.Complete)
	path := filepath.Join(b.Files().Shared(), "downloads", f.Stored)
	secret := filepath.Join(filepath.Dir(r.dir), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	plants := map[string]func() error{
		"a link":           func() error { return os.Symlink(secret, path) },
		"a relative link":  func() error { return os.Symlink("../../../../secret", path) },
		"a link inside":    func() error { return os.Symlink("other", path) },
		"a hard link":      func() error { return os.Link(secret, path) },
		"a pipe":           func() error { return unix.Mkfifo(path, 0o666) },
		"a directory":      func() error { return os.Mkdir(path, 0o777) },
		"a worker's file":  func() error { return os.WriteFile(path, []byte("secret"), 0o644) },
		"a device":         func() error { return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) },
		"no file":          func() error { return nil },
		"a link to itself": func() error { return os.Symlink(f.Stored, path) },
	}
	for name, plant := range plants {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := plant(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if content, _, err := b.Files().Open(f.ID); err == nil {
			text, _ := io.ReadAll(content)
			_ = content.Close()
			t.Errorf("%s was opened: %q", name, text)
		}
	}
	if err := b.Files().Delete(f.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
}
