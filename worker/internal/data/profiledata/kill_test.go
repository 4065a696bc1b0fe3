package profiledata_test

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// assertNumber checks that the data is exactly that of one of the numbers and returns
// the number.
func assertNumber(t *testing.T, r *fixture, numbers ...int) int {
	t.Helper()
	got := r.restored(t)
	n, _ := strconv.Atoi(got["number"].Text)
	if !slices.Contains(numbers, n) {
		t.Fatalf("got data of number %q, want one of %v\n%s", got["number"].Text, numbers, r.log)
	}
	for name, text := range numbered(n) {
		if got[name].Text != text {
			t.Fatalf("%s differs from the saved file", name)
		}
	}
	if len(got) != 20+3 {
		t.Fatalf("got %d entries", len(got))
	}
	if strings.Contains(r.log.String(), "snapshot is damaged") {
		t.Fatalf("a snapshot is damaged:\n%s", r.log)
	}
	return n
}

// TestSave_KillWhileWritingKeepsLastVersion kills a process at 50 points of a save,
// from before the first read until after old versions are removed.
func TestSave_KillWhileWritingKeepsLastVersion(t *testing.T) {
	const points = 50
	r := newFixture(t)
	var checks int
	first := start(t, r, "save-once", 1, 0)
	if _, err := fmt.Sscanf(first.await(t, "saved"), "saved 1 %d", &checks); err != nil || checks < points {
		t.Fatalf("a save checks its context %d times, %v", checks, err)
	}
	first.kill()
	sizes := map[int]bool{} // of incomplete versions, in objects
	for n := range points - 1 {
		check := 1 + n*(checks-1)/(points-2)
		p := start(t, r, "save-once", 2+n, check)
		p.await(t, "stopped")
		if objects, err := os.ReadDir(filepath.Join(r.dir, "saving")); err == nil {
			sizes[len(objects)] = true
		}
		p.kill()
		assertNumber(t, r, 1)
	}
	if len(sizes) < 3 {
		t.Errorf("the incomplete versions had only the sizes %v", sizes)
	}
	p := start(t, r, "save-once", 100, -1)
	p.await(t, "stopped")
	p.kill()
	assertNumber(t, r, 100)
	t.Logf("%d points of %d checks; sizes of incomplete versions: %d", points, checks, len(sizes))
}

// TestSave_KillAtAnyTimeKeepsLastVersion kills a process that saves continuously, at
// arbitrary times.
func TestSave_KillAtAnyTimeKeepsLastVersion(t *testing.T) {
	r := newFixture(t)
	last := 0
	for range 25 {
		p := start(t, r, "save-on", last+1)
		p.await(t, "saving")
		timer := time.AfterFunc(time.Duration(rand.Intn(150))*time.Millisecond, func() { _ = p.Process.Kill() })
		saving := last + 1
		for p.output.Scan() {
			if word, i, _ := strings.Cut(p.output.Text(), " "); word == "saving" {
				saving, _ = strconv.Atoi(i)
			} else if i, _, _ = strings.Cut(i, " "); word == "saved" {
				last, _ = strconv.Atoi(i)
			}
		}
		timer.Stop()
		p.kill()
		if last+saving == 1 { // not even the first version is complete
			continue
		}
		last = assertNumber(t, r, last, saving)
	}
	t.Logf("%d versions", last)
}

func TestAcquire_KilledHolderReleasesProfile(t *testing.T) {
	r := newFixture(t)
	p := start(t, r, "hold")
	p.await(t, "stopped")
	if _, err := r.Acquire(profileID); !fault.Is(err, fault.Conflict) {
		t.Errorf("acquired a profile that another process holds: %v", err)
	}
	p.kill()
	r.claim(t)
}

// contendForProfile acquires and removes the profile repeatedly and checks that it
// has exclusive access.
func contendForProfile(store *profiledata.Local, marker string, times int) error {
	claimed := 0
	for i := 0; claimed < times; i++ {
		if i%7 == 0 {
			if err := store.Remove(profileID); err != nil && !errors.Is(err, profiledata.ErrInUse) && !errors.Is(err, profiledata.ErrNotFound) {
				return err
			}
		}
		c, err := store.Acquire(profileID)
		if fault.Is(err, fault.Conflict) {
			continue
		}
		if err != nil {
			return err
		}
		file, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("two processes hold the profile: %w", err)
		}
		if err := errors.Join(file.Close(), os.Remove(marker)); err != nil {
			return err
		}
		c.Release()
		claimed++
	}
	fmt.Println("alone")
	return nil
}

func TestAcquire_IsExclusiveAcrossProcesses(t *testing.T) {
	r := newFixture(t)
	var all []*helperProcess
	for range 3 {
		all = append(all, start(t, r, "contend", 300))
	}
	for _, p := range all {
		p.await(t, "alone")
	}
}
