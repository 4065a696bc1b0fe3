package profiledata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/fault"
)

// Index returns what the cloud knows about a profile's data.
type Index interface {
	// Key returns the key of the organization. Errors: NotFound if the organization does
	// not have the profile.
	Key(ctx context.Context, profileID uuid.UUID) ([]byte, error)
	// Versions returns the versions of a profile's data.
	Versions(ctx context.Context, profileID uuid.UUID) ([]uuid.UUID, error)
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

// CollectGarbage deletes the objects of the organization that no version of the cloud
// refers to and that are older than minAge. minAge must be longer than a save can take:
// the objects of a save in progress belong to no version yet. Data of profiles that the
// cloud has deleted is deleted too. Data of other organizations stays.
func (r *Remote) CollectGarbage(ctx context.Context, index Index, minAge time.Duration) (done Garbage, err error) {
	found, err := r.profiles(ctx)
	if err != nil {
		return done, err
	}
	var own *box
	deleted := map[uuid.UUID]bool{}
	for _, p := range found {
		key, err := index.Key(ctx, p.id)
		if fault.Is(err, fault.NotFound) {
			deleted[p.id] = true
			continue
		}
		if err != nil {
			return done, err
		}
		if own != nil { // all profiles of the organization have the same key
			continue
		}
		if own, err = newBox(key); err != nil {
			return done, err
		}
	}
	if own == nil { // which directory is the organization's is unknown
		return done, nil
	}
	before := r.opts.Clock.Now().Add(-minAge)
	for _, p := range found {
		if p.directory != own.directory {
			continue
		}
		done.Profiles++
		if err := r.collect(ctx, own, index, p.id, deleted[p.id], before, &done); err != nil {
			return done, fmt.Errorf("profile %s: %w", p.id, err)
		}
	}
	return done, nil
}

// storedProfile is the directory of a profile in the store.
type storedProfile struct {
	directory string // of the organization
	id        uuid.UUID
}

// profiles lists the profiles of all organizations.
func (r *Remote) profiles(ctx context.Context) (found []storedProfile, err error) {
	organizations, err := r.directories(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, directory := range organizations {
		names, err := r.directories(ctx, directory+"/")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if id, err := uuid.Parse(path.Base(name)); err == nil {
				found = append(found, storedProfile{directory, id})
			}
		}
	}
	return found, nil
}

// directories lists the directories below a prefix.
func (r *Remote) directories(ctx context.Context, prefix string) (names []string, err error) {
	for all := r.opts.Bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"}); ; {
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
func (r *Remote) collect(ctx context.Context, b *box, index Index, profileID uuid.UUID, deleted bool, before time.Time, done *Garbage) error {
	objects, err := r.objects(ctx, path.Join(b.directory, profileID.String())+"/")
	if err != nil {
		return err
	}
	used := map[string]bool{}
	if !deleted {
		versions, err := index.Versions(ctx, profileID)
		if err != nil {
			return err
		}
		for _, version := range versions {
			m, err := r.readManifest(ctx, b, profileID, version)
			if err != nil {
				return err
			}
			used[b.objectName(profileID, version, manifestName)] = true
			for _, c := range m.Chunks {
				used[b.objectName(profileID, c.Version, c.ID)] = true
			}
		}
	}
	for _, o := range objects {
		if used[o.key] || !o.modified.Before(before) {
			continue
		}
		if err := r.opts.Bucket.Delete(ctx, o.key); err != nil {
			return storeError("delete", o.key, err)
		}
		done.Objects++
		done.Bytes += o.size
	}
	return nil
}

func (r *Remote) objects(ctx context.Context, prefix string) (found []object, err error) {
	for all := r.opts.Bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
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
