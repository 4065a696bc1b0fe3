package profiledata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/google/uuid"
)

// errDamaged means that a version differs from what was written.
var errDamaged = errors.New("the snapshot is damaged")

// ErrTooLarge means that a profile exceeds the limits of the store.
var ErrTooLarge = errors.New("larger than LAUNCH_DISK_MB allows")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errDamaged, fmt.Errorf(format, args...))
}

const (
	manifestName = "manifest"
	maxEntries   = 200_000
)

// manifest describes a version: a tar, cut into chunks.
type manifest struct {
	SavedAt  int64      `json:"savedAt"`  // Unix time in nanoseconds
	Unpacked int64      `json:"unpacked"` // bytes of the tar
	Content  int64      `json:"content"`  // bytes of the files in it
	Entries  int64      `json:"entries"`
	Chunks   []chunkRef `json:"chunks"`
}

// chunkRef refers to a chunk.
type chunkRef struct {
	ID      string    `json:"id"`
	Version uuid.UUID `json:"version"` // that added it
	Size    int64     `json:"size"`    // unpacked
}

func (m manifest) chunksByID() map[string]chunkRef {
	known := make(map[string]chunkRef, len(m.Chunks))
	for _, c := range m.Chunks {
		known[c.ID] = c
	}
	return known
}

// hasChunksOf reports whether both versions have the same tar.
func (m manifest) hasChunksOf(other manifest) bool {
	return slices.EqualFunc(m.Chunks, other.Chunks, func(a, b chunkRef) bool { return a.ID == b.ID })
}

// check returns errDamaged for inconsistent sizes.
func (m manifest) check() error {
	var total int64
	for _, c := range m.Chunks {
		if c.Size <= 0 || c.Size > maxChunk {
			return damaged("a chunk of the manifest has %d bytes", c.Size)
		}
		total += c.Size
	}
	if total != m.Unpacked || m.Content < 0 || m.Unpacked < m.Content || m.Entries < 0 || m.Entries > maxEntries {
		return damaged("inconsistent sizes in the manifest")
	}
	return nil
}

// objectName returns the name of an object of a version.
func (b *box) objectName(profileID, version uuid.UUID, base string) string {
	return path.Join(b.directory, profileID.String(), version.String(), base)
}

// put writes an object and returns its size.
func (s *Store) put(ctx context.Context, b *box, name string, content []byte) (int64, error) {
	sealed := b.seal(name, content)
	return int64(len(sealed)), s.objects.write(ctx, name, sealed)
}

// get reads an object into a buffer that is large enough, or a new one.
func (s *Store) get(ctx context.Context, b *box, name string, buffer []byte) ([]byte, error) {
	sealed, err := s.objects.read(ctx, name)
	if err != nil {
		return nil, err
	}
	return b.open(name, sealed, buffer)
}

func (s *Store) readManifest(ctx context.Context, b *box, profileID, version uuid.UUID) (m manifest, err error) {
	raw, err := s.get(ctx, b, b.objectName(profileID, version, manifestName), nil)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, damaged("manifest: %w", err)
	}
	return m, m.check()
}
