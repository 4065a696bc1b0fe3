package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

const (
	collectInterval = time.Hour   // of a store
	expireInterval  = time.Minute // of the journal
	collectTimeout  = 30 * time.Minute
	orphanAge       = 24 * time.Hour // beyond the retention, of abandoned uploads
)

// Run forgets expired recordings and deletes them from the store until ctx ends. All
// workers with the same store delete the recordings of all of them, because a worker may
// not exist any more when its recordings expire. The time of the last deletion is in the
// store, so that usually only one of them looks for expired recordings within an hour.
func (s *Store) Run(ctx context.Context) {
	expire := time.NewTicker(expireInterval)
	defer expire.Stop()
	collect := time.NewTimer(rand.N(collectInterval))
	defer collect.Stop()
	for {
		select {
		case <-expire.C:
			s.forgetExpired()
		case <-collect.C:
			s.collectIfDue(ctx)
			collect.Reset(collectInterval/2 + rand.N(collectInterval))
		case <-ctx.Done():
			return
		}
	}
}

// collectIfDue deletes expired recordings if this was not done within the last hour.
func (s *Store) collectIfDue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	last, err := s.collectedAt(ctx)
	if err == nil && s.Clock.Now().Sub(last) < collectInterval {
		return
	}
	deleted := 0
	if err == nil {
		deleted, err = s.Collect(ctx)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		s.Log.WarnContext(ctx, "failed to delete expired recordings; it is tried again", "deleted", deleted, "error", err)
	case deleted > 0:
		s.Log.InfoContext(ctx, "expired recordings deleted", "recordings", deleted)
	}
}

func (s *Store) collectedAt(ctx context.Context) (time.Time, error) {
	found, err := s.Bucket.Attributes(ctx, collectedName)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return found.ModTime, nil
}

// group contains the objects of a recording.
type group struct {
	directory string // recordings/<organization>/<session id>
	keys      []string
	described bool
	modified  time.Time // of the latest object
}

// Collect deletes the recordings that have expired, by their descriptions and by the clock
// of the store.
func (s *Store) Collect(ctx context.Context) (deleted int, err error) {
	if err := s.Bucket.WriteAll(ctx, collectedName, nil, nil); err != nil {
		return 0, err
	}
	now, err := s.collectedAt(ctx)
	if err != nil {
		return 0, err
	}
	var current group
	finish := func() {
		expired, failed := s.collectGroup(ctx, current, now)
		if expired {
			deleted++
		}
		err = errors.Join(err, failed)
	}
	for all := s.Bucket.List(&blob.ListOptions{Prefix: storeRoot + "/"}); ; {
		object, failed := all.Next(ctx)
		if failed != nil {
			if !errors.Is(failed, io.EOF) {
				return deleted, errors.Join(err, failed)
			}
			finish()
			return deleted, err
		}
		directory, name := path.Split(object.Key)
		if !isPart(directory, name) {
			continue
		}
		if directory != current.directory {
			finish()
			current = group{directory: directory}
		}
		current.keys = append(current.keys, object.Key)
		current.described = current.described || name == infoName
		if name != MP4Name && object.ModTime.After(current.modified) { // a conversion keeps no recording longer
			current.modified = object.ModTime
		}
	}
}

// isPart reports whether an object is a part of a recording, so that nothing else in the
// store is ever deleted.
func isPart(directory, name string) bool {
	names := strings.Split(strings.TrimSuffix(directory, "/"), "/")
	_, ok := contentTypes[name]
	if len(names) != 3 || !ok {
		return false
	}
	_, err := uuid.Parse(names[2])
	return err == nil
}

// collectGroup deletes a recording if it has expired.
func (s *Store) collectGroup(ctx context.Context, recording group, now time.Time) (expired bool, err error) {
	age := now.Sub(recording.modified)
	if len(recording.keys) == 0 || age < s.Retention {
		return false, nil
	}
	if recording.described {
		raw, err := s.Bucket.ReadAll(ctx, path.Join(recording.directory, infoName))
		var d description
		if err == nil {
			err = json.Unmarshal(raw, &d)
		}
		if err != nil {
			return false, fmt.Errorf("read the description in %s: %w", recording.directory, err)
		}
		if now.Before(d.Expires) {
			return false, nil
		}
	} else if age < s.Retention+orphanAge {
		return false, nil
	}
	// The description goes last: without it, what is left would be kept longer.
	for _, last := range []bool{false, true} {
		for _, key := range recording.keys {
			if (path.Base(key) == infoName) != last {
				continue
			}
			if err := s.Bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
				return false, fmt.Errorf("delete %s: %w", key, err)
			}
		}
	}
	return true, nil
}
