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

// errReleased means that a claim is used after it was given back.
var errReleased = errors.New("the claim on the profile's data was given back")

// Handle is one launch's hold on a profile's data. It implements browser.Data.
type Handle struct {
	store *Store
	dir   string
	log   *slog.Logger

	mu       sync.Mutex // one thing at a time
	lock     *os.File   // nil once given back
	restored bool
}

// Release gives the data back, after what is under way. It may be called again.
func (c *Handle) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		unlock(c.lock)
		c.lock = nil
	}
}

// removeTemporaryFiles removes what a crash left in the making.
func (c *Handle) removeTemporaryFiles() error {
	return os.RemoveAll(filepath.Join(c.dir, savingName))
}

// Restore unpacks the current version into an empty directory, with modes and
// times; without one the directory stays empty. A damaged version is set aside,
// and the one before it is taken. Owners are the caller's business. Errors:
// ErrTooLarge for a version from when more was allowed, those of the context and
// of writing; after one of them the directory is as it was.
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
			skipped.log(c.log, "parts of the profile's data are not restored")
			c.log.Debug("profile data restored", "version", v.Number, "bytes", t.Content, "entries", t.Entries, "took", time.Since(began))
			return nil
		}
		if !errors.Is(err, errDamaged) {
			return fmt.Errorf("version %d: %w", v.Number, err)
		}
		c.log.Error("A SNAPSHOT OF THE PROFILE'S DATA IS DAMAGED: it is set aside, and the version before it is taken",
			"file", v.path+damagedSuffix, "savedAt", v.SavedAt, "error", err)
		if err := c.quarantine(v); err != nil {
			return fmt.Errorf("set version %d aside: %w", v.Number, err)
		}
	}
	if len(found) > 0 {
		c.log.Error("NO GOOD SNAPSHOT OF THE PROFILE'S DATA IS LEFT: it starts empty")
	}
	return nil
}

// Save makes a new version of a data directory, unless it is as the current
// version is. It waits for those before it as long as ctx allows, then the store's
// SaveTime begins. After an error the current version is what it was. Errors:
// ErrTooLarge, with the figures, and those of the context, of reading and of
// writing.
func (c *Handle) Save(ctx context.Context, from *os.Root) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.lock == nil:
		return errReleased
	case !c.restored:
		return errors.New("the profile's data was not restored: what the launch has may not replace it")
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
		return fmt.Errorf("save the profile's data: the disk does not give back what was written: %w", err)
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
	if err := c.prune(); err != nil { // the next time will do
		c.log.Warn("old versions of the profile's data are not removed", "error", err)
	}
	return nil
}

// write packs a directory into a file that is on the disk when it returns.
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
	p.skipped.log(c.log, "parts of the profile's data are not kept")
	made = trailer{SavedAt: c.store.opts.Clock.Now().UnixNano(), Content: p.content, Entries: p.entries}
	return made, to.finish(&made)
}

// matchesCurrent reports whether the current version holds the same.
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
