package profiledata

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"gocloud.dev/gcerrors"

	"github.com/browser-svc/svc/shared/lazy"
)

// organizationDirectory matches the directory of an organization.
var organizationDirectory = lazy.Regexp(`^[0-9a-f]{32}$`)

// CollectDeleted deletes the data of organizations that the cloud has deleted: the objects
// in their directories that are older than minAge by the clock of the store. It asks the
// cloud about each directory. Data that the cloud does not clearly call deleted stays.
func (s *Store) CollectDeleted(ctx context.Context, index Index, minAge time.Duration) (done Garbage, err error) {
	directories, err := s.directories(ctx, "")
	if err != nil {
		return done, err
	}
	for _, directory := range directories {
		if !organizationDirectory().MatchString(directory) {
			continue
		}
		deleted, failed := index.Deleted(ctx, directory)
		if failed == nil && deleted {
			failed = s.deleteDirectory(ctx, directory, minAge, &done)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("data of a deleted organization in %s: %w", directory, failed))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return done, err
}

// deleteDirectory deletes the objects of a directory that are older than minAge. Its time
// of the last collection is deleted last, because it contains the time of the store.
func (s *Store) deleteDirectory(ctx context.Context, directory string, minAge time.Duration, done *Garbage) error {
	marker := path.Join(directory, collectedName)
	if err := s.opts.Bucket.WriteAll(ctx, marker, nil, nil); err != nil {
		return storeError("write", marker, err)
	}
	found, err := s.opts.Bucket.Attributes(ctx, marker)
	if err != nil {
		return storeError("read", marker, err)
	}
	objects, err := s.list(ctx, directory+"/")
	if err != nil {
		return err
	}
	before, left := found.ModTime.Add(-minAge), 0
	for _, o := range objects {
		switch {
		case o.key == marker:
			continue
		case !o.modified.Before(before):
			left++
			continue
		}
		if err := s.delete(ctx, o.key); err != nil {
			return err
		}
		done.Objects++
		done.Bytes += o.size
	}
	if left > 0 {
		return nil
	}
	return s.delete(ctx, marker)
}

// delete deletes an object, which another collection may have deleted.
func (s *Store) delete(ctx context.Context, key string) error {
	err := s.opts.Bucket.Delete(ctx, key)
	if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return storeError("delete", key, err)
	}
	return nil
}
