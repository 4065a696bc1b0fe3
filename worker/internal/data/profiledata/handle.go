package profiledata

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const savingName = "saving.tmp"

// errReleased means that a handle is used after Release.
var errReleased = errors.New("the profile's data was released")

// Handle is exclusive access to a profile's data. It implements browser.Data.
type Handle struct {
	store *Store
	dir   string
	log   *slog.Logger

	mu       sync.Mutex // one operation at a time
	lock     *os.File   // nil after Release
	restored bool
}

// Release releases the data after the operation in progress. It can be called again.
func (c *Handle) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		unlock(c.lock)
		c.lock = nil
	}
}

// removeTemporaryFiles removes what a crash left behind.
func (c *Handle) removeTemporaryFiles() error {
	return os.RemoveAll(filepath.Join(c.dir, savingName))
}

// Restore unpacks the current version into an empty directory, with modes and times.
// Without a version the directory stays empty. A damaged version is quarantined and
// the previous one is used. The caller sets the owners. Errors: ErrTooLarge for a
// version saved under a higher limit, context errors and write errors. After an
// error the directory is unchanged.
func (c *Handle) Restore(ctx context.Context, into *os.Root) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock == nil {
		return errReleased
	}
	done, err := c.store.acquireSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := c.restore(ctx, into); err != nil {
		return fmt.Errorf("restore the profile's data: %w", err)
	}
	c.restored = true
	return nil
}

func (c *Handle) restore(ctx context.Context, into *os.Root) error {
	found, err := listVersions(c.dir)
	if err != nil {
		return err
	}
	for _, v := range slices.Backward(found) {
		began := time.Now()
		t, skipped, err := c.store.unpack(ctx, v.path, into)
		if err == nil {
			skipped.log(c.log, "some entries of the profile data were not restored")
			c.log.Debug("profile data restored", "version", v.Number, "bytes", t.Content, "entries", t.Entries, "took", time.Since(began))
			return nil
		}
		if !errors.Is(err, errDamaged) {
			return fmt.Errorf("version %d: %w", v.Number, err)
		}
		c.log.Error("profile data snapshot is damaged: it is quarantined and the previous version is used",
			"file", v.path+damagedSuffix, "savedAt", v.SavedAt, "error", err)
		if err := c.quarantine(v); err != nil {
			return fmt.Errorf("quarantine version %d: %w", v.Number, err)
		}
	}
	if len(found) > 0 {
		c.log.Error("no usable profile data snapshot is left: the profile starts empty")
	}
	return nil
}

// Save creates a new version of a data directory, unless it is equal to the current
// version. It waits for its turn until ctx ends; then the store's SaveTime begins.
// After an error the current version is unchanged. Errors: ErrTooLarge, with the
// sizes, context errors, read and write errors.
func (c *Handle) Save(ctx context.Context, from *os.Root) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.lock == nil:
		return errReleased
	case !c.restored:
		return errors.New("the profile's data was not restored, so it must not be replaced")
	}
	done, err := c.store.acquireSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	if bound := c.store.opts.SaveTime; bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bound)
		defer cancel()
	}
	return c.save(ctx, from)
}

func (c *Handle) save(ctx context.Context, from *os.Root) error {
	began := time.Now()
	if err := measure(ctx, from, c.store.opts.MaxBytes); err != nil {
		return fmt.Errorf("save the profile's data: %w", err)
	}
	saving := filepath.Join(c.dir, savingName)
	defer os.Remove(saving)
	made, err := c.write(ctx, from, saving)
	if err != nil {
		return fmt.Errorf("save the profile's data: %w", err)
	}
	same, err := c.matchesCurrent(ctx, made)
	if err != nil || same {
		return err
	}
	if err := c.store.verifyFile(ctx, saving); err != nil {
		return fmt.Errorf("save the profile's data: verification of the written data failed: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	number, err := c.makeCurrent(saving)
	if err != nil {
		return fmt.Errorf("save the profile's data: %w", err)
	}
	c.log.Info("profile data saved", "version", number, "bytes", made.Content, "entries", made.Entries,
		"packed", made.Packed, "took", time.Since(began))
	if err := c.prune(); err != nil { // the next save retries
		c.log.Warn("failed to remove old versions of profile data", "error", err)
	}
	return nil
}

// write packs a directory into a file and syncs it.
func (c *Handle) write(ctx context.Context, from *os.Root, path string) (made trailer, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	to, err := newSnapshotWriter(file)
	if err != nil {
		return made, err
	}
	entries := tar.NewWriter(to)
	p := &packer{ctx: ctx, from: from, to: entries, max: c.store.opts.MaxBytes}
	if err := errors.Join(p.pack(), entries.Close()); err != nil {
		return made, errors.Join(err, to.encoder.Close())
	}
	if err := ctx.Err(); err != nil {
		return made, err
	}
	p.skipped.log(c.log, "some entries of the profile data were not saved")
	made = trailer{SavedAt: c.store.opts.Clock.Now().UnixNano(), Content: p.content, Entries: p.entries}
	return made, to.finish(&made)
}

// matchesCurrent reports whether the current version has the same content.
func (c *Handle) matchesCurrent(ctx context.Context, made trailer) (bool, error) {
	found, err := listVersions(c.dir)
	if err != nil || len(found) == 0 {
		return false, err
	}
	current := found[len(found)-1]
	if current.Err != nil || current.trailer.Digest != made.Digest {
		return false, nil
	}
	switch err := c.store.verifyFile(ctx, current.path); {
	case err == nil:
		return true, nil
	case errors.Is(err, errDamaged), errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}
