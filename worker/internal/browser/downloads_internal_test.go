package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// downloadsFixture follows the downloads of a fake browser. All of it runs in a bubble of
// synctest.
type downloadsFixture struct {
	*downloads
	t       *testing.T
	dir     string // of the downloads
	browser *io.PipeWriter
	calls   chan string   // methods of the calls, with their parameters
	hold    chan struct{} // the log blocks until it is closed
}

// newDownloadsFixture returns downloads with a quota of 1 MB.
func newDownloadsFixture(t *testing.T) *downloadsFixture {
	t.Helper()
	store, err := files.Open(files.Options{Dir: t.TempDir(), Quota: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	launch, err := store.Create("launch", -1, "/svc/files")
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, browserOut := io.Pipe()
	browserIn, toBrowser := io.Pipe()
	f := &downloadsFixture{
		t: t, browser: browserOut, dir: filepath.Join(launch.Shared(), files.DownloadsBelow), calls: make(chan string, 1000), hold: make(chan struct{}),
	}
	go f.answer(browserIn)
	b := &Browser{LaunchID: "launch", files: launch, conn: cdp.New(fromBrowser, toBrowser), l: &Launcher{log: slog.New(blockingLog{slog.DiscardHandler, f.hold})}}
	f.downloads = newDownloads(b)
	wait := f.start(t.Context())
	if err := wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.conn.Close()
		f.wait()
		store.Wait()
	})
	return f
}

// blockingLog is a log whose errors block until it is released.
type blockingLog struct {
	slog.Handler
	hold chan struct{}
}

func (h blockingLog) Enabled(context.Context, slog.Level) bool { return true }

func (h blockingLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelError {
		<-h.hold
	}
	return nil
}

// answer answers the calls of the worker.
func (f *downloadsFixture) answer(calls io.Reader) {
	for r := bufio.NewReader(calls); ; {
		raw, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var call struct {
			ID     int
			Method string
			Params json.RawMessage
		}
		_ = json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &call)
		f.calls <- call.Method + " " + string(call.Params)
		f.send(`{"id":%d,"result":{}}`, call.ID)
	}
}

func (f *downloadsFixture) send(format string, args ...any) {
	_, _ = fmt.Fprintf(f.browser, format+"\x00", args...) // fails at the end
}

func (f *downloadsFixture) begin(id string) {
	f.send(`{"method":"Browser.downloadWillBegin","params":{"guid":%q,"url":"https://example.com","suggestedFilename":"%s.txt"}}`, id, id)
}

func (f *downloadsFixture) progress(id, state string, received int) {
	f.send(`{"method":"Browser.downloadProgress","params":{"guid":%q,"state":%q,"receivedBytes":%d}}`, id, state, received)
}

// store writes a file like the browser.
func (f *downloadsFixture) store(name string, size int) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), make([]byte, size), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// remove removes a file like the browser.
func (f *downloadsFixture) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// lag makes the subscription lag: events are lost until catchUp.
func (f *downloadsFixture) lag() {
	f.send(`{"method":"Browser.downloadWillBegin","params":1}`)
	for range downloadsQueued + 2 {
		f.send(`{"method":"Browser.downloadProgress","params":{}}`)
	}
	synctest.Wait()
}

func (f *downloadsFixture) catchUp() {
	close(f.hold)
	synctest.Wait()
}

// assertState fails unless a download has a state.
func (f *downloadsFixture) assertState(id string, want files.State) {
	f.t.Helper()
	if got, err := f.b.files.Get(id); err != nil || got.State != want {
		f.t.Errorf("%s is %q (%v), want %s", id, got.State, err, want)
	}
}

const (
	guidEnded   = "11111111-1111-4111-8111-111111111111"
	guidRuns    = "22222222-2222-4222-8222-222222222222"
	guidBegun   = "33333333-3333-4333-8333-333333333333"
	guidGone    = "44444444-4444-4444-8444-444444444444"
	guidNew     = "55555555-5555-4555-8555-555555555555"
	guidMissed  = "66666666-6666-4666-8666-666666666666"
	guidDeleted = "77777777-7777-4777-8777-777777777777"
)

// TestDownloads_RecoverLostEvents loses the events of downloads that end, begin and go on,
// and checks them, the barrier of sync and the quota afterwards.
func TestDownloads_RecoverLostEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newDownloadsFixture(t)
		for _, id := range []string{guidEnded, guidRuns, guidBegun, guidGone, guidDeleted} {
			f.begin(id)
		}
		for _, id := range []string{guidEnded, guidRuns, guidGone, guidDeleted} {
			f.store(id+".crdownload", 100)
			f.progress(id, "inProgress", 100)
		}
		synctest.Wait()
		if err := f.b.files.Delete(guidDeleted); err != nil {
			t.Fatal(err)
		}
		f.lag()
		f.remove(guidEnded + ".crdownload")
		f.store(guidEnded, 200)
		f.progress(guidEnded, "completed", 200)
		f.remove(guidGone + ".crdownload")
		f.progress(guidGone, "canceled", 100)
		f.begin(guidMissed)
		f.store(guidMissed, 300)
		f.progress(guidMissed, "completed", 300)
		f.store(guidDeleted, 100) // the browser was faster than its cancellation
		f.progress(guidDeleted, "completed", 100)
		f.catchUp()

		before := time.Now()
		f.sync(t.Context())
		if waited := time.Since(before); waited > 0 {
			t.Errorf("sync waited for %v", waited)
		}
		for id, want := range map[string]files.State{guidEnded: files.Complete, guidRuns: files.InProgress, guidBegun: files.InProgress, guidMissed: files.Complete} {
			f.assertState(id, want)
		}
		if _, err := os.Stat(filepath.Join(f.dir, guidDeleted)); err == nil {
			t.Error("a deleted download has left its file")
		}
		f.store(guidBegun+".crdownload", 100)
		f.progress(guidBegun, "inProgress", 100)
		time.Sleep(time.Minute)
		synctest.Wait()
		f.assertState(guidGone, files.Canceled)
		f.assertState(guidBegun, files.InProgress)
		f.begin(guidNew)
		f.sync(t.Context())
		f.assertState(guidNew, files.InProgress)
		f.progress(guidRuns, "inProgress", 2<<20)
		synctest.Wait()
		f.assertState(guidRuns, files.QuotaExceeded)
		var canceled bool
		for len(f.calls) > 0 {
			call := <-f.calls
			canceled = canceled || strings.HasPrefix(call, "Browser.cancelDownload") && strings.Contains(call, guidRuns)
		}
		if !canceled {
			t.Error("the download that exceeds the quota was not canceled")
		}
	})
}

// TestDownloads_SyncAfterLag waits with sync while events are lost.
func TestDownloads_SyncAfterLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newDownloadsFixture(t)
		f.begin(guidEnded)
		f.store(guidEnded+".crdownload", 100)
		f.lag()
		f.remove(guidEnded + ".crdownload")
		f.store(guidEnded, 200)
		f.progress(guidEnded, "completed", 200)
		synced := make(chan struct{})
		go func() {
			f.sync(t.Context())
			close(synced)
		}()
		synctest.Wait()
		close(f.hold)
		<-synced
		f.assertState(guidEnded, files.Complete)
	})
}
