package profiledata

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/google/uuid"
)

// WriteVersion writes a version with these bytes as its tar and these counts in its
// manifest.
func (l *Local) WriteVersion(profileID uuid.UUID, number int, tar []byte, content, entries int64) error {
	id := uuid.New()
	path := filepath.Join(l.profileDir(profileID), id.String())
	m := manifest{Unpacked: int64(len(tar)), Content: content, Entries: entries}
	err := errors.Join(os.MkdirAll(path, 0o700), os.Symlink(id.String(), filepath.Join(filepath.Dir(path), strconv.Itoa(number))))
	write := func(base string, content []byte) {
		_, failed := l.store.put(context.Background(), l.box, l.box.objectName(profileID, id, base), content)
		err = errors.Join(err, failed)
	}
	for chunk := range slices.Chunk(tar, maxChunk) {
		ref := chunkRef{ID: l.box.chunkID(chunk), Version: id, Size: int64(len(chunk))}
		write(ref.ID, chunk)
		m.Chunks = append(m.Chunks, ref)
	}
	raw, failed := json.Marshal(m)
	write(manifestName, raw)
	return errors.Join(err, failed)
}

// CollectIfDue is what Run does about once an hour.
func (c *Collector) CollectIfDue(ctx context.Context) { c.collectIfDue(ctx) }
