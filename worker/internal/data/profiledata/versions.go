package profiledata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	suffix        = ".tar.zst"
	damagedSuffix = ".bad"
	maxDamaged    = 3 // kept damaged snapshots of each profile
)

// Version is one snapshot of a profile's data.
type Version struct {
	Number   int
	SavedAt  time.Time
	Content  int64 // unpacked size of its files
	Entries  int   // files, directories and links
	Size     int64 // size on disk
	Checksum string
	Err      error // why its trailer cannot be read

	path    string
	trailer trailer
}

// listVersions returns the versions in a directory, oldest first.
func listVersions(dir string) ([]Version, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Version
	for _, e := range entries {
		number, ok := versionNumber(e.Name(), suffix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		v := Version{Number: number, path: filepath.Join(dir, e.Name())}
		v.Size, v.trailer, v.Err = readTrailer(v.path)
		if errors.Is(v.Err, fs.ErrNotExist) { // removed concurrently
			continue
		}
		if v.Err == nil {
			v.SavedAt, v.Content, v.Entries = time.Unix(0, v.trailer.SavedAt), v.trailer.Content, int(v.trailer.Entries)
			v.Checksum = fmt.Sprintf("%x", v.trailer.Digest[:])
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Version) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

func versionNumber(name, ending string) (int, bool) {
	digits, ok := strings.CutSuffix(name, ending)
	number, err := strconv.Atoi(digits)
	return number, ok && err == nil && number > 0 && strconv.Itoa(number) == digits
}

// nextNumber returns the number for a new version. Damaged versions count, so that
// no number is reused.
func nextNumber(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	highest := 0
	for _, e := range entries {
		number, _ := versionNumber(strings.TrimSuffix(e.Name(), damagedSuffix), suffix)
		highest = max(highest, number)
	}
	return highest + 1, nil
}

// makeCurrent makes a file in the directory the current version and returns its
// number.
func (c *Handle) makeCurrent(file string) (int, error) {
	number, err := nextNumber(c.dir)
	if err != nil {
		return 0, err
	}
	if err := os.Rename(file, filepath.Join(c.dir, strconv.Itoa(number)+suffix)); err != nil {
		return 0, err
	}
	return number, syncDir(c.dir)
}

// prune removes versions above the limit. Damaged versions do not count.
func (c *Handle) prune() error {
	found, err := listVersions(c.dir)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(v Version) bool {
		if !errors.Is(v.Err, errDamaged) {
			return false
		}
		err = errors.Join(err, c.quarantine(v))
		return true
	})
	for _, v := range found[:max(0, len(found)-c.store.opts.Versions)] {
		err = errors.Join(err, os.Remove(v.path))
	}
	return err
}

// quarantine renames a damaged snapshot so that it is not used again. Only the
// newest damaged snapshots are kept.
func (c *Handle) quarantine(v Version) error {
	if err := os.Rename(v.path, v.path+damagedSuffix); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var bad []int
	for _, e := range entries {
		if number, ok := versionNumber(e.Name(), suffix+damagedSuffix); ok {
			bad = append(bad, number)
		}
	}
	slices.Sort(bad)
	for _, number := range bad[:max(0, len(bad)-maxDamaged)] {
		err = errors.Join(err, os.Remove(filepath.Join(c.dir, strconv.Itoa(number)+suffix+damagedSuffix)))
	}
	return errors.Join(err, syncDir(c.dir))
}

// Rollback makes an older version the current one: number to, or the previous
// version if to is 0. The version gets the next number, and newer versions stay
// until they are pruned. Errors: ErrNotFound, ErrInUse.
func (s *Store) Rollback(ctx context.Context, profileID uuid.UUID, to int) (from, now Version, err error) {
	c, err := s.acquire(profileID, false)
	if err != nil {
		return from, now, err
	}
	defer c.Release()
	found, err := listVersions(c.dir)
	if err != nil {
		return from, now, fmt.Errorf("list the versions: %w", err)
	}
	if from, err = chooseVersion(found, to); err != nil {
		return from, now, err
	}
	if err := s.Verify(ctx, from); err != nil {
		return from, now, fmt.Errorf("version %d cannot be used: %w", from.Number, err)
	}
	now = from
	if now.Number, err = c.makeCurrent(from.path); err != nil {
		return from, now, fmt.Errorf("roll back to version %d: %w", from.Number, err)
	}
	return from, now, nil
}

// chooseVersion returns the version to roll back to.
func chooseVersion(found []Version, to int) (Version, error) {
	if to == 0 {
		if len(found) < 2 {
			return Version{}, errors.New("there is no version before the current one")
		}
		return found[len(found)-2], nil
	}
	i := slices.IndexFunc(found, func(v Version) bool { return v.Number == to })
	if i < 0 {
		return Version{}, fmt.Errorf("there is no version %d", to)
	}
	if i == len(found)-1 {
		return Version{}, fmt.Errorf("version %d is the current one", to)
	}
	return found[i], nil
}
