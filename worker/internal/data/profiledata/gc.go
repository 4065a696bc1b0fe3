package profiledata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/browser-svc/svc/shared/fault"
)

// Index returns what the cloud knows about a profile's data.
type Index interface {
	// Key returns the key of the organization. Errors: NotFound if the organization does
	// not have the profile.
	Key(ctx context.Context, profileID uuid.UUID) ([]byte, error)
	// Versions returns the versions of a profile's data. Errors: NotFound if the
	// organization does not have the profile.
	Versions(ctx context.Context, profileID uuid.UUID) ([]uuid.UUID, error)
	// Deleted reports whether a directory is that of a deleted organization.
	Deleted(ctx context.Context, directory string) (bool, error)
}

// Garbage is the result of CollectGarbage.
type Garbage struct {
	Profiles int // with data in the store
	Objects  int // deleted
	Bytes    int64
}

// object is an object of a profile, named by its path in the profile's directory.
type object struct {
	key      string
	size     int64
	modified time.Time
}

// collectedName is the object whose time is that of the last garbage collection of an
// organization.
const collectedName = "collected"

// pendingName is the object of a version that the cloud may not have yet. While the object
// is young, the version is no garbage.
const pendingName = "pending"

// PendingTime is how much longer than garbage a pending version is kept. Reports of versions
// are given up before.
const PendingTime = 29 * 24 * time.Hour

// SetKey sets the key of the worker's own organization. Otherwise, a garbage collection
// reads it from the index.
func (s *Store) SetKey(key []byte) {
	if s.own.Load() != nil {
		return
	}
	if b, err := newBox(key); err == nil { // Handle reports the error
		s.own.Store(b)
	}
}

// CollectGarbage deletes the objects of the organization that no version of the cloud
// refers to and that are older than minAge by the clock of the store. minAge must be
// longer than a save can take: the objects of a save in progress belong to no version
// yet. Pending versions are kept for PendingTime. Data of profiles that the cloud has
// deleted is deleted too. Data of other organizations stays. A profile that cannot be
// collected does not stop the others. Several collections at the same time are safe.
func (s *Store) CollectGarbage(ctx context.Context, index Index, minAge time.Duration) (done Garbage, err error) {
	own, err := s.ownBox(ctx, index)
	if err != nil || own == nil { // which directory is the organization's is unknown
		return done, err
	}
	now, err := s.beginCollection(ctx, own)
	if err != nil {
		return done, err
	}
	found, err := s.profiles(ctx, own.directory)
	if err != nil {
		return done, err
	}
	for _, id := range found {
		done.Profiles++
		if failed := s.collect(ctx, own, index, id, now.Add(-minAge), &done); failed != nil {
			err = errors.Join(err, fmt.Errorf("profile %s: %w", id, failed))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return done, err
}

// collectedAt returns when a garbage collection of the organization last began; the zero
// time if none did.
func (s *Store) collectedAt(ctx context.Context, own *box) (time.Time, error) {
	name := path.Join(own.directory, collectedName)
	found, err := s.opts.Bucket.Attributes(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, storeError("read", name, err)
	}
	return found.ModTime, nil
}

// beginCollection records that a garbage collection begins. It returns the time of the
// store, so that a wrong clock of this machine deletes nothing too early.
func (s *Store) beginCollection(ctx context.Context, own *box) (time.Time, error) {
	if _, err := s.put(ctx, own, path.Join(own.directory, collectedName), nil); err != nil {
		return time.Time{}, err
	}
	return s.collectedAt(ctx, own)
}

// ownBox returns the box of the worker's own organization; nil if the store has no data of
// a profile that the index has.
func (s *Store) ownBox(ctx context.Context, index Index) (*box, error) {
	if own := s.own.Load(); own != nil {
		return own, nil
	}
	organizations, err := s.directories(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, directory := range organizations {
		found, err := s.profiles(ctx, directory)
		if err != nil {
			return nil, err
		}
		for _, id := range found {
			key, err := index.Key(ctx, id)
			if fault.Is(err, fault.NotFound) { // of another organization, or deleted
				continue
			}
			if err == nil {
				s.SetKey(key)
			}
			return s.own.Load(), err
		}
	}
	return nil, nil
}

// profiles lists the profiles of an organization.
func (s *Store) profiles(ctx context.Context, directory string) (found []uuid.UUID, err error) {
	names, err := s.directories(ctx, directory+"/")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if id, err := uuid.Parse(path.Base(name)); err == nil {
			found = append(found, id)
		}
	}
	return found, nil
}

// directories lists the directories below a prefix.
func (s *Store) directories(ctx context.Context, prefix string) (names []string, err error) {
	for all := s.opts.Bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"}); ; {
		entry, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, storeError("list", prefix, err)
		}
		if entry.IsDir {
			names = append(names, strings.TrimSuffix(entry.Key, "/"))
		}
	}
}

// collect deletes the garbage of one profile. The objects are listed before the versions
// are read, so that an object that a later version adds is not in the list.
func (s *Store) collect(ctx context.Context, b *box, index Index, profileID uuid.UUID, before time.Time, done *Garbage) error {
	objects, err := s.list(ctx, path.Join(b.directory, profileID.String())+"/")
	if err != nil {
		return err
	}
	versions, err := index.Versions(ctx, profileID)
	var pending map[string]uuid.UUID
	switch {
	case err == nil:
		pending = pendingVersions(objects, versions, before.Add(-PendingTime))
	case !fault.Is(err, fault.NotFound): // a profile that the cloud has deleted has no versions
		return err
	}
	used, err := s.usedObjects(ctx, b, profileID, slices.AppendSeq(versions, maps.Values(pending)))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if _, ok := pending[o.key]; ok {
			continue
		}
		if used[o.key] || !o.modified.Before(before) {
			continue
		}
		err := s.opts.Bucket.Delete(ctx, o.key)
		if gcerrors.Code(err) == gcerrors.NotFound { // another collection deleted it
			continue
		}
		if err != nil {
			return storeError("delete", o.key, err)
		}
		done.Objects++
		done.Bytes += o.size
	}
	return nil
}

// pendingVersions returns the versions that are pending since a time, by their pending
// objects. The cloud has the other versions.
func pendingVersions(objects []object, others []uuid.UUID, since time.Time) map[string]uuid.UUID {
	pending := map[string]uuid.UUID{}
	for _, o := range objects {
		dir, name := path.Split(o.key)
		id, err := uuid.Parse(path.Base(dir))
		if name == pendingName && err == nil && o.modified.After(since) && !slices.Contains(others, id) {
			pending[o.key] = id
		}
	}
	return pending
}

// usedObjects returns the objects of all versions of a profile's data.
func (s *Store) usedObjects(ctx context.Context, b *box, profileID uuid.UUID, versions []uuid.UUID) (map[string]bool, error) {
	used := map[string]bool{}
	for _, version := range versions {
		m, err := s.readManifest(ctx, b, profileID, version)
		if err != nil {
			return nil, err
		}
		used[b.objectName(profileID, version, manifestName)] = true
		for _, c := range m.Chunks {
			used[b.objectName(profileID, c.Version, c.ID)] = true
		}
	}
	return used, nil
}

func (s *Store) list(ctx context.Context, prefix string) (found []object, err error) {
	for all := s.opts.Bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		entry, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, storeError("list", prefix, err)
		}
		found = append(found, object{entry.Key, entry.Size, entry.ModTime})
	}
}
