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
	damagedSuffix = ".bad"
	maxDamaged    = 3 // kept damaged versions of each profile
)

// Profile is the data of one profile on this machine.
type Profile struct {
	ID       uuid.UUID
	Versions []Version // newest first; the first is the current version
	Size     int64     // size on disk
}

// Version is one version of a profile's data.
type Version struct {
	Number  int
	ID      uuid.UUID
	SavedAt time.Time
	Content int64 // unpacked size of its files
	Entries int   // files, directories and links
	Size    int64 // size on disk of what it added
	Err     error // why its manifest cannot be read

	path string
}

// Profiles returns all profiles with data, sorted by id.
func (l *Local) Profiles(ctx context.Context) ([]Profile, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the profiles: %w", err)
	}
	var all []Profile
	for _, e := range entries {
		id, err := uuid.Parse(e.Name())
		if err != nil || !e.IsDir() || id.String() != e.Name() {
			continue
		}
		found, err := l.Versions(ctx, id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		all = append(all, Profile{ID: id, Versions: found, Size: sizeOf(l.profileDir(id))})
	}
	return all, nil
}

// Versions returns the versions of a profile, the current one first. It needs no
// handle. Errors: ErrNotFound.
func (l *Local) Versions(ctx context.Context, profileID uuid.UUID) ([]Version, error) {
	found, err := listVersions(l.profileDir(profileID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("list the versions: %w", err)
	}
	for i := range found {
		l.describe(ctx, profileID, &found[i])
	}
	slices.Reverse(found)
	return found, nil
}

// describe reads the manifest of a version, and the sizes of its objects.
func (l *Local) describe(ctx context.Context, profileID uuid.UUID, v *Version) {
	var m manifest
	if m, v.Err = l.store.readManifest(ctx, l.box, profileID, v.ID); v.Err == nil {
		v.SavedAt, v.Content, v.Entries = time.Unix(0, m.SavedAt), m.Content, int(m.Entries)
	}
	v.Size = sizeOf(filepath.Join(l.profileDir(profileID), v.ID.String()))
}

// sizeOf returns the size of the files in a directory. Files that are removed meanwhile do
// not count.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, _ error) error {
		if e != nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// Verify reads a version completely and returns an error if it is damaged.
func (l *Local) Verify(ctx context.Context, profileID uuid.UUID, v Version) error {
	return l.Reader(profileID).objects.verify(ctx, v.ID)
}

// listVersions returns the versions in a directory, oldest first, without the contents of
// their manifests.
func listVersions(dir string) ([]Version, error) { return listLinks(dir, "") }

// listLinks returns the versions whose name is a number with this ending, oldest first.
func listLinks(dir, ending string) ([]Version, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Version
	for _, e := range entries {
		number, ok := versionNumber(e.Name(), ending)
		if !ok || e.Type() != fs.ModeSymlink {
			continue
		}
		v := Version{Number: number, path: filepath.Join(dir, e.Name())}
		target, err := os.Readlink(v.path)
		if errors.Is(err, fs.ErrNotExist) { // removed concurrently
			continue
		}
		if err != nil {
			return nil, err
		}
		if v.ID, err = uuid.Parse(target); err == nil {
			all = append(all, v)
		}
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
		number, _ := versionNumber(strings.TrimSuffix(e.Name(), damagedSuffix), "")
		highest = max(highest, number)
	}
	return highest + 1, nil
}

// prune removes the versions above the limit, and the objects that no version uses.
// Versions with a damaged manifest do not count.
func (h *LocalHandle) prune(ctx context.Context) error {
	found, err := listVersions(h.dir)
	if err != nil {
		return err
	}
	o := h.objects
	var kept []uuid.UUID
	for _, v := range slices.Backward(found) {
		if len(kept) == o.store.opts.Versions {
			err = errors.Join(err, os.Remove(v.path))
			continue
		}
		switch _, failed := o.store.readManifest(ctx, o.box, o.use.ProfileID, v.ID); {
		case failed == nil:
			kept = append(kept, v.ID)
		case errors.Is(failed, errDamaged):
			err = errors.Join(err, h.quarantine(v))
		default:
			return errors.Join(err, failed)
		}
	}
	used, failed := o.store.usedObjects(ctx, o.box, o.use.ProfileID, kept)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	return h.removeUnused(used)
}

// removeUnused removes the objects of versions that are not in the list any more, unless
// a later version uses them.
func (h *LocalHandle) removeUnused(used map[string]bool) error {
	listed, err := listVersions(h.dir)
	bad, failed := listLinks(h.dir, damagedSuffix)
	entries, unread := os.ReadDir(h.dir)
	if err := errors.Join(err, failed, unread); err != nil {
		return err
	}
	listed = append(listed, bad...)
	for _, e := range entries {
		id, invalid := uuid.Parse(e.Name())
		if invalid != nil || slices.ContainsFunc(listed, func(v Version) bool { return v.ID == id }) {
			continue
		}
		objects, failed := os.ReadDir(filepath.Join(h.dir, e.Name()))
		err = errors.Join(err, failed)
		objects = slices.DeleteFunc(objects, func(o fs.DirEntry) bool {
			if used[h.objects.box.objectName(h.objects.use.ProfileID, id, o.Name())] {
				return false
			}
			err = errors.Join(err, os.Remove(filepath.Join(h.dir, e.Name(), o.Name())))
			return true
		})
		if len(objects) == 0 {
			err = errors.Join(err, os.Remove(filepath.Join(h.dir, e.Name())))
		}
	}
	return err
}

// quarantine renames a damaged version so that it is not used again. Only the newest
// damaged versions are kept.
func (h *LocalHandle) quarantine(v Version) error {
	if err := os.Rename(v.path, v.path+damagedSuffix); err != nil {
		return err
	}
	bad, err := listLinks(h.dir, damagedSuffix)
	for _, old := range bad[:max(0, len(bad)-maxDamaged)] {
		err = errors.Join(err, os.Remove(old.path))
	}
	return errors.Join(err, syncDir(h.dir))
}

// Rollback makes an older version the current one: the one with the number, or the
// previous version if number is 0. The version gets the next number, and newer versions stay
// until they are pruned. Errors: ErrNotFound, ErrInUse.
func (l *Local) Rollback(ctx context.Context, profileID uuid.UUID, number int) (source, now Version, err error) {
	h, err := l.acquire(profileID, false)
	if err != nil {
		return source, now, err
	}
	defer h.Release()
	found, err := listVersions(h.dir)
	if err != nil {
		return source, now, fmt.Errorf("list the versions: %w", err)
	}
	if source, err = chooseVersion(found, number); err != nil {
		return source, now, err
	}
	if err := h.objects.verify(ctx, source.ID); err != nil {
		return source, now, fmt.Errorf("version %d cannot be used: %w", source.Number, err)
	}
	l.describe(ctx, profileID, &source)
	now = source
	if now.Number, err = h.makeCurrent(strconv.Itoa(source.Number)); err != nil {
		return source, now, fmt.Errorf("roll back to version %d: %w", source.Number, err)
	}
	return source, now, nil
}

// chooseVersion returns the version to roll back to.
func chooseVersion(found []Version, number int) (Version, error) {
	if number == 0 {
		if len(found) < 2 {
			return Version{}, errors.New("there is no version before the current one")
		}
		return found[len(found)-2], nil
	}
	i := slices.IndexFunc(found, func(v Version) bool { return v.Number == number })
	if i < 0 {
		return Version{}, fmt.Errorf("there is no version %d", number)
	}
	if i == len(found)-1 {
		return Version{}, fmt.Errorf("version %d is the current one", number)
	}
	return found[i], nil
}
