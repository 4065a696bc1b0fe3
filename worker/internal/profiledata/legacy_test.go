package profiledata_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/browser-svc/svc/worker/internal/profiledata"
)

// leave makes the profile's directory what an older worker left.
func leave(t *testing.T, r *rig, data tree) {
	t.Helper()
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	data["SingletonLock"] = link("host-1")
	data["Default/Cache/1"] = file("x")
	data.into(t, root)
}

func assertTakenOver(t *testing.T, r *rig, want tree, versions ...int) {
	t.Helper()
	assertTree(t, r.restored(t), want)
	if got := r.numbers(t); !slices.Equal(got, versions) {
		t.Errorf("there are versions %v, want %v", got, versions)
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil || len(entries) != len(versions)+1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

func TestWhatAnOlderWorkerLeftIsTheFirstVersion(t *testing.T) {
	r := newRig(t)
	leave(t, r, sample(1))
	if os.Geteuid() == 0 { // as a crash leaves it
		if err := errors.Join(os.Chown(r.dir, 61_999, 61_999), os.Chmod(r.dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	assertTakenOver(t, r, sample(1), 1)
	info, err := os.Stat(r.dir)
	if err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		t.Errorf("the directory is %v, %v", info, err)
	}
}

func TestWhatAnOlderWorkerLeftAfterwardsIsTheNextVersion(t *testing.T) {
	r := newRig(t)
	r.save(t, sample(1))
	leave(t, r, sample(2))
	assertTakenOver(t, r, sample(2), 2, 1)
}

func TestATakeOverThatBrokeOffIsDoneAgain(t *testing.T) {
	for name, brokenOff := range map[string]func(t *testing.T, r *rig){
		"while it moved": func(t *testing.T, r *rig) {
			leave(t, r, sample(1))
			raw := filepath.Join(r.dir, "raw")
			if err := errors.Join(os.Mkdir(raw, 0o700), os.Rename(filepath.Join(r.dir, "Default"), filepath.Join(raw, "Default"))); err != nil {
				t.Fatal(err)
			}
		},
		"before it removed": func(t *testing.T, r *rig) {
			r.save(t, sample(1))
			raw := filepath.Join(r.dir, "raw")
			if err := os.Mkdir(raw, 0o700); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(raw)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			sample(1).into(t, root)
		},
		"while it removed": func(t *testing.T, r *rig) {
			r.save(t, sample(1))
			if err := os.MkdirAll(filepath.Join(r.dir, "raw.taken", "Default"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			brokenOff(t, r)
			assertTakenOver(t, r, sample(1), 1)
		})
	}
}

func TestWhatCannotBeTakenOverStays(t *testing.T) {
	r := newRig(t, func(o *profiledata.Options) { o.MaxBytes = 10 })
	leave(t, r, sample(1))
	_, err := r.Claim(t.Context(), profileID)
	raw := filepath.Join(r.dir, "raw")
	if !errors.Is(err, profiledata.ErrTooLarge) || !strings.Contains(err.Error(), "it stays in "+raw) {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(raw, "Default", "Cookies")); err != nil || string(text) != "cookies of number 1" {
		t.Errorf("it has %q, %v", text, err)
	}
	r.opts.MaxBytes = 1000
	if r.Store, err = profiledata.Open(r.opts); err != nil {
		t.Fatal(err)
	}
	assertTakenOver(t, r, sample(1), 1)
}

func TestAnOperatorsFilesAreNotTakenForAProfile(t *testing.T) {
	r := newRig(t)
	r.save(t, sample(1))
	notes := filepath.Join(r.dir, "notes.txt")
	if err := os.WriteFile(notes, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	assertTree(t, r.restored(t), sample(1))
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}
