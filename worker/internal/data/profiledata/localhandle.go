package profiledata

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// savingName links to a version that is being written.
const savingName = "saving"

// errReleased means that a handle is used after Release.
var errReleased = errors.New("the profile's data was released")

// LocalHandle is access to a profile's data on this machine: exclusive, or only to read.
// It implements browser.Data.
type LocalHandle struct {
	dir      string
	readOnly bool

	mu      sync.Mutex // one operation at a time
	lock    *os.File   // nil after Release, and for a reader
	objects *Handle
}

// Release releases the data after the operation in progress. It can be called again.
func (h *LocalHandle) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lock != nil {
		unlock(h.lock)
		h.lock = nil
	}
}

// Restore unpacks the current version into an empty directory, with modes and times.
// Without a version the directory stays empty. A damaged version is quarantined, unless
// the launch only reads, and the previous one is used. The caller sets the owners.
// Errors: ErrTooLarge for a version saved under a higher limit, context errors and write
// errors. After an error the directory is unchanged.
func (h *LocalHandle) Restore(ctx context.Context, into *os.Root) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lock == nil && !h.readOnly {
		return errReleased
	}
	done, err := h.objects.store.acquireSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := h.restore(ctx, into); err != nil {
		return fmt.Errorf("restore the profile's data: %w", err)
	}
	h.objects.restored = true
	return nil
}

func (h *LocalHandle) restore(ctx context.Context, into *os.Root) error {
	h.objects.base = manifest{}
	found, err := listVersions(h.dir)
	if h.readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, v := range slices.Backward(found) {
		err := h.objects.restore(ctx, v.ID, into)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errDamaged) {
			return fmt.Errorf("version %d: %w", v.Number, err)
		}
		if h.readOnly {
			continue
		}
		h.objects.log.Error("profile data snapshot is damaged: it is quarantined and the previous version is used",
			"file", v.path+damagedSuffix, "error", err)
		if err := h.quarantine(v); err != nil {
			return fmt.Errorf("quarantine version %d: %w", v.Number, err)
		}
	}
	if len(found) > 0 {
		h.objects.log.Error("no usable profile data snapshot is left: the profile starts empty")
	}
	return nil
}

// Save creates a new version of a data directory, unless it is equal to the current
// version. It waits for its turn until ctx ends; then the time of a save begins. After an
// error the current version is unchanged. Errors: ErrTooLarge, with the sizes, context
// errors, read and write errors.
func (h *LocalHandle) Save(ctx context.Context, source *os.Root) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.readOnly:
		return nil
	case h.lock == nil:
		return errReleased
	case !h.objects.restored:
		return errNotRestored
	}
	ctx, done, err := h.objects.store.acquireSaveSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := h.save(ctx, source); err != nil {
		return fmt.Errorf("save the profile's data: %w", err)
	}
	return nil
}

func (h *LocalHandle) save(ctx context.Context, source *os.Root) (err error) {
	began := time.Now()
	w, err := h.beginSaving()
	defer func() { err = errors.Join(err, h.discardSaving()) }()
	if err != nil {
		return err
	}
	saved, changed, err := h.write(ctx, w, source)
	if err != nil || !changed {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	number, err := h.makeCurrent(savingName)
	if err != nil {
		return err
	}
	h.objects.base, h.objects.use.Current = saved, &w.id
	h.objects.log.Info("profile data saved", "version", number, "bytes", saved.Content, "entries", saved.Entries,
		"added", w.sent.Load(), "took", time.Since(began))
	if err := h.prune(ctx); err != nil { // the next save retries
		h.objects.log.Warn("failed to remove old versions of profile data", "error", err)
	}
	return nil
}

// write writes a version and verifies all of its data, which includes chunks of earlier
// versions: if one was damaged since the restore, the version is written without them. It
// reports whether the version differs from the current one.
func (h *LocalHandle) write(ctx context.Context, w *versionWriter, source *os.Root) (saved manifest, changed bool, err error) {
	for {
		base, version := h.objects.base, w.id
		w.known = base.chunksByID()
		if saved, err = w.write(ctx, source); err != nil {
			return saved, false, err
		}
		if changed = !saved.hasChunksOf(base); changed {
			if err := w.writeManifest(ctx, saved); err != nil {
				return saved, false, err
			}
		} else {
			version = *h.objects.use.Current
		}
		err = h.objects.verify(ctx, version)
		if errors.Is(err, errDamaged) && len(base.Chunks) > 0 {
			h.objects.log.Warn("the current version of profile data is damaged: the next one is written completely", "error", err)
			h.objects.base = manifest{}
			continue
		}
		if err != nil {
			err = fmt.Errorf("verification of the written data failed: %w", err)
		}
		return saved, changed, err
	}
}

// beginSaving creates the directory of a new version.
func (h *LocalHandle) beginSaving() (*versionWriter, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("generate a version id: %w", err)
	}
	if err := os.Symlink(id.String(), filepath.Join(h.dir, savingName)); err != nil {
		return nil, err
	}
	return &versionWriter{h: h.objects, id: id}, os.Mkdir(filepath.Join(h.dir, id.String()), 0o700)
}

// discardSaving removes a version that was not completed. Without one it does nothing.
func (h *LocalHandle) discardSaving() error {
	saving := filepath.Join(h.dir, savingName)
	version, err := os.Readlink(saving)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if id, failed := uuid.Parse(version); failed == nil {
		err = os.RemoveAll(filepath.Join(h.dir, id.String()))
	}
	return errors.Join(err, os.Remove(saving))
}

// makeCurrent renames a version, so that it is the current one, and returns its number.
func (h *LocalHandle) makeCurrent(name string) (int, error) {
	number, err := nextNumber(h.dir)
	if err != nil {
		return 0, err
	}
	path := filepath.Join(h.dir, name)
	if err := syncDir(path); err != nil { // of the objects
		return 0, err
	}
	if err := os.Rename(path, filepath.Join(h.dir, strconv.Itoa(number))); err != nil {
		return 0, err
	}
	return number, syncDir(h.dir)
}
