package profiledata

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"
)

// Reader restores the current version of a profile without a lock and saves nothing. It
// implements browser.Data.
type Reader struct {
	store *Store
	dir   string
}

// Reader returns a Reader of a profile's data. Launches can use the data meanwhile.
func (s *Store) Reader(profileID uuid.UUID) Reader {
	return Reader{store: s, dir: filepath.Join(s.opts.Dir, profileID.String())}
}

// Release does nothing.
func (Reader) Release() {}

// Save does nothing.
func (Reader) Save(context.Context, *os.Root) error { return nil }

// Restore is Handle.Restore, but a damaged version stays where it is.
func (r Reader) Restore(ctx context.Context, into *os.Root) error {
	done, err := r.store.acquireSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	found, err := listVersions(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore the profile's data: %w", err)
	}
	for _, v := range slices.Backward(found) {
		_, skipped, err := r.store.unpack(ctx, v.path, into)
		if err == nil {
			skipped.log(r.store.opts.Logger, "some entries of the profile data were not restored")
			return nil
		}
		if !errors.Is(err, errDamaged) && !errors.Is(err, fs.ErrNotExist) { // a launch may have removed it
			return fmt.Errorf("restore version %d of the profile's data: %w", v.Number, err)
		}
	}
	return nil
}
