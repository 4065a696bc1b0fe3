package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/browser-svc/svc/shared/benchresult"
)

// bench is one run.
type bench struct {
	rounds       int
	size, change int64 // bytes of the profile, and of what the second save changes

	dir    string
	server *httptest.Server
}

const storeName = "profiles"

// open creates the directory of the run.
func (b *bench) open() (err error) {
	b.dir, err = os.MkdirTemp("", "svc-bench-")
	return err
}

// serve starts an S3 server without objects and returns the URL of the store.
func (b *bench) serve() (string, error) {
	if b.server != nil {
		b.server.Close()
	}
	backend := s3mem.New()
	if err := backend.CreateBucket(storeName); err != nil {
		return "", err
	}
	b.server = httptest.NewServer(gofakes3.New(backend).Server())
	return "s3://" + storeName + "?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + b.server.URL, nil
}

func (b *bench) close() error {
	if b.server != nil {
		b.server.Close()
	}
	return os.RemoveAll(b.dir)
}

// figures are the values of all rounds.
type figures map[string][]float64

func (f figures) add(name string, value float64) { f[name] = append(f[name], value) }

// median returns the median of a figure.
func (f figures) median(name string) float64 {
	values := slices.Sorted(slices.Values(f[name]))
	return values[len(values)/2]
}

// sessions measures a first save, a second save after a change, and a restore.
func (b *bench) sessions(ctx context.Context) ([]benchresult.Row, error) {
	found := figures{}
	for range b.rounds {
		if err := b.round(ctx, found); err != nil {
			return nil, err
		}
	}
	const seconds, megabytes = "s", "MB"
	profile, changed := fmt.Sprintf("%d MiB", b.size>>20), fmt.Sprintf("%d MiB changed", b.change>>20)
	return []benchresult.Row{
		{What: "first save of " + profile, Unit: seconds, Ours: found.median("first")},
		{What: "first save of " + profile + ", sent", Unit: megabytes, Ours: found.median("first sent")},
		{What: "first save of " + profile + ", peak memory", Unit: megabytes, Ours: found.median("first peak")},
		{What: "second save with " + changed, Unit: seconds, Ours: found.median("second")},
		{What: "second save with " + changed + ", sent", Unit: megabytes, Ours: found.median("second sent"), Other: float64(b.change) / 1e6, Than: "the changed bytes", Target: benchresult.AtMost(3)},
		{What: "restore of " + profile, Unit: seconds, Ours: found.median("restore"), Target: benchresult.FigureAtMost(10)},
		{What: "restore of " + profile + ", peak memory", Unit: megabytes, Ours: found.median("restore peak")},
	}, nil
}

// round measures once, with an empty store.
func (b *bench) round(ctx context.Context, found figures) error {
	dir := filepath.Join(b.dir, "profile")
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	files, changed := int(b.size/fileSize), int(b.change/fileSize)
	if err := writeProfile(root, 0, files, 1); err != nil {
		return err
	}
	store, err := b.serve()
	if err != nil {
		return err
	}
	first, err := b.session(ctx, session{Store: store, Dir: dir, Save: true})
	if err != nil {
		return err
	}
	if err := writeProfile(root, files/2, changed, 2); err != nil {
		return err
	}
	second, err := b.session(ctx, session{Store: store, Dir: dir, Save: true, Current: &first.Version})
	if err != nil {
		return err
	}
	restored, err := b.session(ctx, session{Store: store, Dir: dir, Current: &second.Version})
	if err != nil {
		return err
	}
	found.add("first", first.Save.Seconds())
	found.add("first sent", float64(first.Sent)/1e6)
	found.add("first peak", float64(first.Peak)/1e6)
	found.add("second", second.Save.Seconds())
	found.add("second sent", float64(second.Sent)/1e6)
	found.add("restore", restored.Restore.Seconds())
	found.add("restore peak", float64(restored.Peak)/1e6)
	return nil
}

// session runs a session in a process of its own.
func (b *bench) session(ctx context.Context, s session) (done result, err error) {
	given, err := json.Marshal(s)
	if err != nil {
		return done, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "session") //nolint:gosec // this program
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(given), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return done, fmt.Errorf("session: %w", err)
	}
	if err := json.Unmarshal(out, &done); err != nil {
		return done, fmt.Errorf("session: %w", err)
	}
	if s.Save && done.Version == uuid.Nil {
		return done, errors.New("the session saved nothing")
	}
	return done, nil
}
