package profiledata

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	rawName   = "raw"       // what an older worker left, until it is a version
	takenName = "raw.taken" // and after that, until it is removed
)

// raws are entries by which Chromium's data directory is known.
var raws = []string{"Local State", "Default", "Last Version"}

// takeOver makes what an older worker left, Chromium's data directory itself,
// the current version. It may break off anywhere and be done again.
func (c *Claim) takeOver(ctx context.Context) error {
	raw := filepath.Join(c.dir, rawName)
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == rawName || slices.Contains(raws, e.Name()) }) {
		return nil
	}
	if err := c.own(); err != nil {
		return err
	}
	if err := os.Mkdir(raw, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, e := range entries {
		if isOurs(e.Name()) {
			continue
		}
		if err := os.Rename(filepath.Join(c.dir, e.Name()), filepath.Join(raw, e.Name())); err != nil {
			return err
		}
	}
	if err := c.saveRaw(ctx, raw); err != nil {
		return fmt.Errorf("%w; it stays in %s", err, raw)
	}
	taken := filepath.Join(c.dir, takenName)
	if err := errors.Join(os.Rename(raw, taken), syncDir(c.dir)); err != nil {
		return err
	}
	c.log.Info("the data that an older worker left is the current version now")
	return os.RemoveAll(taken)
}

// own closes the directory to the user that the last browser of an older worker
// ran as: a crash left it theirs.
func (c *Claim) own() error {
	if os.Geteuid() == 0 {
		if err := os.Chown(c.dir, 0, 0); err != nil {
			return err
		}
	}
	return os.Chmod(c.dir, 0o700)
}

func (c *Claim) saveRaw(ctx context.Context, raw string) error {
	done, err := c.store.work(ctx)
	if err != nil {
		return err
	}
	defer done()
	from, err := os.OpenRoot(raw)
	if err != nil {
		return err
	}
	defer from.Close()
	return c.save(ctx, from)
}

// isOurs reports whether an entry of a profile's directory is this package's.
func isOurs(name string) bool {
	if slices.Contains([]string{lockName, savingName, rawName, takenName}, name) {
		return true
	}
	_, ok := numberOf(strings.TrimSuffix(name, badSuffix), suffix)
	return ok
}
