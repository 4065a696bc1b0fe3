package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// session is a session of a profile.
type session struct {
	Store   string     // URL
	Current *uuid.UUID // the version to restore
	Dir     string     // the data directory, which exists
	Save    bool
}

// result is what a session did.
type result struct {
	Version uuid.UUID // that was saved
	Sent    int64
	Restore time.Duration
	Save    time.Duration
	Peak    int64 // resident bytes
}

var profileID = uuid.MustParse("01890000-0000-7000-8000-000000000001")

// runSession reads a session and writes its result. It restores the data into an empty
// directory, or saves a directory.
func runSession(ctx context.Context, input io.Reader, output io.Writer) (err error) {
	debug.SetGCPercent(50) // as svc-worker does
	var s session
	if err := json.NewDecoder(input).Decode(&s); err != nil {
		return err
	}
	bucket, err := profiledata.OpenBucket(ctx, s.Store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	var done result
	use := profiledata.Use{ProfileID: profileID, Current: s.Current, Key: make([]byte, 32), Commit: func(_ context.Context, v profiledata.SavedVersion) error {
		done.Version, done.Sent = v.ID, v.Sent
		return nil
	}}
	remote := profiledata.Open(profiledata.Options{Bucket: bucket, Versions: 3, MaxBytes: 1 << 30, Clock: clock.System{}})
	h, err := remote.Handle(use)
	if err != nil {
		return err
	}
	if err := measure(ctx, s, h, &done); err != nil {
		return err
	}
	if done.Peak, err = peakMemory(); err != nil {
		return err
	}
	return json.NewEncoder(output).Encode(done)
}

// measure restores into a directory beside that of the session, and saves that of the
// session.
func measure(ctx context.Context, s session, h *profiledata.Handle, done *result) error {
	into, err := os.MkdirTemp(filepath.Dir(s.Dir), "restored-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(into)
	restored, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer restored.Close()
	began := time.Now()
	if err := h.Restore(ctx, restored); err != nil {
		return err
	}
	done.Restore = time.Since(began)
	if !s.Save {
		return nil
	}
	source, err := os.OpenRoot(s.Dir)
	if err != nil {
		return err
	}
	defer source.Close()
	began = time.Now()
	err = h.Save(ctx, source)
	done.Save = time.Since(began)
	return err
}

// peakMemory returns the greatest resident set of this process.
func peakMemory() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}

// fileSize is the size of the files of a profile.
const fileSize = 256 << 10

// writeProfile writes files with this total size. About half of each is compressible.
func writeProfile(root *os.Root, first, files int, seed int64) error {
	random := rand.New(rand.NewSource(seed))
	text := make([]byte, fileSize)
	for i := first; i < first+files; i++ {
		for offset := 0; offset < len(text); {
			if random.Intn(2) == 0 {
				offset += copy(text[offset:], fmt.Sprintf(`{"origin":"https://site-%d.example/","last_used":%d,"setting":1},`, random.Intn(1000), random.Int63()))
			} else {
				n := min(len(text)-offset, 64)
				random.Read(text[offset : offset+n])
				offset += n
			}
		}
		name := fmt.Sprintf("Default/f%04d", i)
		if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o700), root.WriteFile(name, text, 0o600)); err != nil {
			return err
		}
	}
	return nil
}
