package launch_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

func TestKill_IsIdempotent(t *testing.T) {
	r := newFixture(t)
	s := r.launch(t, byProfile())
	var kills sync.WaitGroup
	for range 8 {
		kills.Go(func() {
			got, err := r.Kill(t.Context(), s.ID)
			if err != nil || got.Status != session.Killed || got.EndReason != session.ByRequest {
				t.Errorf("killed as %s/%s, %v", got.Status, got.EndReason, err)
			}
		})
	}
	kills.Wait()
	r.assertNoResourcesLeak(t)
	r.assertSession(t, s.ID, session.Killed, session.ByRequest, nil)
	if _, ok := r.Browser(s.LaunchID); ok {
		t.Error("the browser is still registered")
	}
	again, err := r.Kill(t.Context(), s.ID)
	if err != nil || again.EndReason != session.ByRequest {
		t.Errorf("second kill: %+v, %v", again, err)
	}
	ends := r.cloud.ends()
	if len(ends) != 1 || ends[0].SessionID != s.ID || ends[0].ProfileID != s.ProfileID || ends[0].Status != session.Killed || ends[0].Reason != session.ByRequest {
		t.Errorf("reported %+v", ends)
	}
}

func TestKill_UnknownSessionIsNotFound(t *testing.T) {
	r := newFixture(t)
	_, err := r.Kill(t.Context(), uuid.New())
	assertKind(t, err, fault.NotFound)
}

func TestSession_ExitedWhenClientClosesBrowser(t *testing.T) {
	r := newFixture(t)
	request := byProfile()
	request.Engine = builds.Chromium // a headless shell crashes sometimes while it ends by itself
	s := r.launch(t, request)
	if err := r.browser(t, s).CDP().Call(t.Context(), "", "Browser.close", nil, nil); err != nil {
		t.Fatal(err)
	}
	end := r.awaitEnd(t, 10*time.Second)
	if end.Status != session.Exited || end.Reason != session.ClientClose {
		t.Errorf("reported %+v", end)
	}
	r.assertSession(t, s.ID, session.Exited, session.ClientClose, new(0))
	r.assertNoResourcesLeak(t)
}

func TestSession_ReportsCrash(t *testing.T) {
	r := newFixture(t)
	s := r.launch(t, byProfile())
	if err := syscall.Kill(r.browser(t, s).PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	end := r.awaitEnd(t, 20*time.Second)
	if end.SessionID != s.ID || end.Status != session.Exited || end.Reason != session.Crash {
		t.Errorf("reported %+v", end)
	}
	r.assertSession(t, s.ID, session.Exited, session.Crash, new(-9))
	r.assertNoResourcesLeak(t)
}

func TestSession_KilledWhenBrowserDoesNotAnswer(t *testing.T) {
	launcher, err := browser.NewLauncher(browser.Options{
		Dir: filepath.Join(testenv.PublicTempDir(t), "launches"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), UnresponsiveTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = launcher.Close() })
	r := newFixture(t, func(o *launch.Options) { o.Launcher = launcher })
	s := r.launch(t, byProfile())
	if err := syscall.Kill(r.browser(t, s).PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	end := r.awaitEnd(t, 20*time.Second)
	if end.SessionID != s.ID || end.Status != session.Killed || end.Reason != session.Unresponsive {
		t.Errorf("reported %+v", end)
	}
	r.assertSession(t, s.ID, session.Killed, session.Unresponsive, nil)
}

func TestSession_LostDisplayIsCrash(t *testing.T) {
	r := newFixture(t)
	request := byProfile()
	request.Headless = false
	s := r.launch(t, request)
	server := 0
	for _, file := range r.processes() {
		if command, _ := os.ReadFile(file); bytes.Contains(command, []byte("\x00-displayfd\x00")) {
			server, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	if server == 0 {
		t.Fatal("found no X server")
	}
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	end := r.awaitEnd(t, 10*time.Second)
	if end.SessionID != s.ID || end.Status != session.Exited || end.Reason != session.Crash {
		t.Errorf("reported %+v", end)
	}
	r.assertNoResourcesLeak(t)
}

func TestMaxDuration_KillsBrowser(t *testing.T) {
	r := newFixture(t)
	request := byProfile()
	const limit = time.Second
	request.Override.MaxDurationSeconds = new(int32(limit / time.Second))
	s := r.launch(t, request)
	end := r.awaitEnd(t, 10*time.Second)
	if lasted := end.At.Sub(s.StartedAt); lasted < limit || lasted > 6*time.Second {
		t.Errorf("the session lasted %v", lasted)
	}
	r.assertSession(t, s.ID, session.Killed, session.MaxDuration, nil)
}

func TestLaunch_CanceledByClientEndsBrowser(t *testing.T) {
	r := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	r.cloud.starting = leave
	_, err := r.Launch(ctx, byProfile())
	assertKind(t, err, fault.Unavailable)
	ends := r.cloud.ends()
	if len(ends) != 1 || ends[0].Status != session.Killed || ends[0].Reason != session.ClientClose {
		t.Errorf("ends %+v, want one, killed because the client disconnected", ends)
	}
}
