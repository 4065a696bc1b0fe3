// Package profiledata keeps the browser data of profiles between launches, in versions.
// The data of a version is a tar that is cut into chunks by its content. A version has the
// chunks that it added, and a manifest that lists all of its chunks.
//
// A Store has the objects of versions in a bucket; the cloud has the list of versions. A
// Local has objects and list in a directory of this machine.
package profiledata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

// Options configures a Store. All but SaveTime and Logger are required.
type Options struct {
	Bucket   *blob.Bucket
	Versions int           // kept versions of each profile, at least 1
	MaxBytes int64         // unpacked size of a version
	SaveTime time.Duration // bounds a Save once it has started; 0: no limit
	Clock    clock.Clock
	Logger   *slog.Logger // discarded when nil
}

// Store keeps the profile data of an organization's workers in an object store:
//
//	<organization>/<profile id>/<version id>/manifest    what the version consists of
//	<organization>/<profile id>/<version id>/<chunk id>  a chunk that the version added
//	<organization>/<profile id>/<version id>/pending     the cloud may not have the version yet
//	<organization>/collected                             when a garbage collection last began
//
// The objects of a version are written once, before the cloud makes it the current one,
// and a version refers to chunks of the version before it. All objects are encrypted
// with the key of the organization. The name of the organization's directory and the
// chunk ids are keyed hashes.
type Store struct {
	opts    Options
	objects objects
	slots   chan struct{}       // limits concurrent packing and unpacking
	own     atomic.Pointer[box] // of the worker's own organization; nil while unknown
}

// maxConcurrent limits concurrent packing and unpacking: each takes a processor and
// some megabytes of memory.
const maxConcurrent = 2

// Open returns the store in a bucket.
func Open(opts Options) *Store { return newStore(opts, bucketObjects{opts.Bucket}) }

func newStore(opts Options, objects objects) *Store {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{opts: opts, objects: objects, slots: make(chan struct{}, maxConcurrent)}
}

// acquireSlot waits for a slot to pack or unpack. Call release to return it.
func (s *Store) acquireSlot(ctx context.Context) (release func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// acquireSaveSlot waits for a slot to pack. Then the time of a save begins.
func (s *Store) acquireSaveSlot(ctx context.Context) (bounded context.Context, release func(), err error) {
	free, err := s.acquireSlot(ctx)
	if err != nil || s.opts.SaveTime <= 0 {
		return ctx, free, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.opts.SaveTime)
	return bounded, func() { cancel(); free() }, nil
}

// Use is the access of one launch to the data of a profile, as the cloud gave it.
type Use struct {
	ProfileID uuid.UUID
	Current   *uuid.UUID // the version to restore; nil if there is none
	Key       []byte     // of the organization
	// Source is restored if there is no version; nil for an empty directory. Release
	// releases it.
	Source Source
	// Commit makes a complete version the current one, if Current still is. nil: the
	// launch only reads. Errors: ErrPending.
	Commit func(ctx context.Context, saved SavedVersion) error
}

// SavedVersion is a complete version in the store.
type SavedVersion struct {
	ID      uuid.UUID
	Content int64 // size of the files
	Sent    int64 // size of the objects that were added
	Keep    int   // how many versions to keep
}

// Handle is the data of one profile for one launch. It implements browser.Data.
type Handle struct {
	store *Store
	use   Use
	box   *box
	log   *slog.Logger

	mu       sync.Mutex // one operation at a time
	restored bool
	base     manifest // of the current version; zero if there is none
}

// Handle returns the data of a profile for one launch.
func (s *Store) Handle(use Use) (*Handle, error) {
	b, err := newBox(use.Key)
	if err != nil {
		return nil, err
	}
	return s.handle(use, b), nil
}

func (s *Store) handle(use Use, b *box) *Handle {
	return &Handle{store: s, use: use, box: b, log: s.opts.Logger.With("profileId", use.ProfileID)}
}

// Release releases the source. The lease ends with the license slot of the launch.
func (h *Handle) Release() {
	if h.use.Source != nil {
		h.use.Source.Release()
	}
}

// Restore writes the current version into an empty directory. Without a version it writes
// the source; without that the directory stays empty. After an error the directory is
// unchanged.
func (h *Handle) Restore(ctx context.Context, into *os.Root) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	done, err := h.store.acquireSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case h.use.Current != nil:
		if err := h.restore(ctx, *h.use.Current, into); err != nil {
			return h.restoreError(*h.use.Current, err)
		}
	case h.use.Source != nil:
		if err := h.use.Source.Restore(ctx, into); err != nil {
			return err
		}
		h.log.Info("profile data of this machine restored: the next save makes it the first version in OBJECT_STORE_URL")
	}
	h.restored = true
	return nil
}

// restoreError returns what the client of the launch can do.
func (h *Handle) restoreError(id uuid.UUID, err error) error {
	err = fmt.Errorf("restore version %s of the profile's data: %w", id, err)
	switch {
	case errors.Is(err, errDamaged):
		h.log.Error("profile data version is damaged: nothing is changed; activate an older version", "version", id, "error", err)
		return fault.Wrap(err, fault.Internal, fmt.Sprintf("Version %s of the profile's data is damaged or encrypted with another key. Nothing was changed. Activate an older version of the data and launch again.", id))
	case errors.Is(err, errStore):
		return fault.Wrap(err, fault.Unavailable, "The store of profile data (OBJECT_STORE_URL) does not answer. Try again.")
	}
	return err
}

// ErrPending means that a complete version becomes the current one later.
var ErrPending = errors.New("the version is saved, but not the current one yet")

// errNotRestored means that a save would replace data that the launch did not have.
var errNotRestored = errors.New("the profile's data was not restored, so it must not be replaced")

// Save adds a version to the store and commits it, unless it is equal to the restored
// one. After an error the current version is unchanged. Errors: ErrTooLarge, with the
// sizes, context errors, read errors, and those of the store and of Commit. After
// ErrPending, the version can still become the current one.
func (h *Handle) Save(ctx context.Context, source *os.Root) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.use.Commit == nil {
		return nil
	}
	if !h.restored {
		return errNotRestored
	}
	if err := h.save(ctx, source); err != nil {
		return fmt.Errorf("save the profile's data: %w", err)
	}
	return nil
}

func (h *Handle) save(ctx context.Context, source *os.Root) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("generate a version id: %w", err)
	}
	began := time.Now()
	w := &versionWriter{h: h, id: id, known: h.base.chunksByID()}
	m, err := w.writeVersion(ctx, source)
	if err != nil || m.hasChunksOf(h.base) {
		return err
	}
	saved := SavedVersion{ID: id, Content: m.Content, Sent: w.sent.Load(), Keep: h.store.opts.Versions}
	err = h.use.Commit(ctx, saved) // without a slot: other saves don't wait for the cloud
	if !errors.Is(err, ErrPending) {
		_ = h.store.opts.Bucket.Delete(ctx, h.box.objectName(h.use.ProfileID, id, pendingName)) // or a garbage collection does
	}
	if err != nil {
		return err
	}
	h.base, h.use.Current = m, &id
	h.log.Info("profile data saved", "version", id, "bytes", m.Content, "entries", m.Entries, "sent", saved.Sent, "took", time.Since(began))
	return nil
}
