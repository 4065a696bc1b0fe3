package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/data/files"
)

// TestBind_RefusesEndedLaunch checks that a launch that has ended is not registered again,
// which would also end the retention of all others.
func TestBind_RefusesEndedLaunch(t *testing.T) {
	s, fake := newStore(t, t.TempDir())
	kept, ended, session, late := create(t, s, "kept"), create(t, s, "ended"), uuid.New(), uuid.New()
	if err := errors.Join(kept.Bind(session, true), kept.Close(), ended.Close()); err != nil {
		t.Fatal(err)
	}
	if err := ended.Bind(late, true); !errors.Is(err, files.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	if _, ok := s.BySession(late); ok {
		t.Error("the ended launch is found")
	}
	fake.Advance(2 * time.Hour)
	s.Sweep()
	if kept := s.Kept(); kept > 0 {
		t.Errorf("%d launches are kept", kept)
	}
	if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestBind_RegistersNothingAfterError binds a launch whose index cannot be saved.
func TestBind_RegistersNothingAfterError(t *testing.T) {
	s, _ := newStore(t, t.TempDir())
	l, session := create(t, s, "one"), uuid.New()
	if err := os.Mkdir(filepath.Join(s.Dir, "one", "index.json.new"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Bind(session, true); err == nil {
		t.Fatal("no error")
	}
	if _, ok := s.BySession(session); ok {
		t.Error("the session is found")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestBind_IsOrderedWithClose binds and ends launches at the same time.
func TestBind_IsOrderedWithClose(t *testing.T) {
	s, fake := newStore(t, t.TempDir())
	for range 200 {
		l, session := create(t, s, "one"), uuid.New()
		var bound, closed error
		var both sync.WaitGroup
		both.Go(func() { bound = l.Bind(session, true) })
		both.Go(func() { closed = l.Close() })
		both.Wait()
		if closed != nil || bound != nil && !errors.Is(bound, files.ErrEnded) {
			t.Fatal(bound, closed)
		}
		if _, ok := s.BySession(session); ok != (bound == nil) {
			t.Fatalf("found %t after %v", ok, bound)
		}
		fake.Advance(2 * time.Hour)
		s.Sweep()
		if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
			t.Fatalf("left %v", left)
		}
	}
}

// TestDelete_LeavesNothingOfDownload deletes downloads that the browser completes before it
// learns of it.
func TestDelete_LeavesNothingOfDownload(t *testing.T) {
	for name, expected := range map[string]int64{"in progress": 7, "canceled for the quota": 2 << 20} {
		for _, stored := range []string{"a", "named by the site"} {
			t.Run(name+"/"+stored, func(t *testing.T) {
				s, _ := newStore(t, t.TempDir())
				l := create(t, s, "one")
				downloads := filepath.Join(l.Shared(), "downloads")
				l.Began("a", "https://example.com", "a.txt")
				l.Progressed("a", 0, expected)
				l.CheckQuota()
				if err := l.Delete("a"); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(downloads, stored), []byte("content"), 0o600); err != nil {
					t.Fatal(err)
				}
				l.Progressed("a", 3, 7)
				l.Completed("a", "/svc/files/downloads/"+stored)
				if left, _ := os.ReadDir(downloads); len(left) > 0 || len(l.List("")) > 0 {
					t.Errorf("left %v, listed %v", left, l.List(""))
				}
			})
		}
	}
}

// TestClose_RemovesDeletedDownload ends a kept launch whose browser has completed a deleted
// download and then ended.
func TestClose_RemovesDeletedDownload(t *testing.T) {
	s, _ := newStore(t, t.TempDir())
	l := create(t, s, "one")
	l.Began("a", "", "a.txt")
	path := filepath.Join(l.Shared(), "downloads", "a")
	err := errors.Join(l.Bind(uuid.New(), true), l.Delete("a"), os.WriteFile(path, []byte("content"), 0o600), l.Close())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is left")
	}
}

// TestBegan_LeavesNothingBeyondLimit completes a download that was canceled because there
// are too many files.
func TestBegan_LeavesNothingBeyondLimit(t *testing.T) {
	s, _ := newStore(t, t.TempDir())
	l := create(t, s, "one")
	for range 10_000 {
		l.Began(uuid.NewString(), "", "x")
	}
	id := uuid.NewString()
	l.Began(id, "", "x")
	path := filepath.Join(l.Shared(), "downloads", id)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.Completed(id, path)
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is left")
	}
}
