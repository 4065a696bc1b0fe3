package profiledata

import (
	"context"
	"crypto/sha256"
	"os"
)

// WriteSnapshot writes a snapshot with these bytes as its tar and these counts in its
// trailer.
func WriteSnapshot(path string, tar []byte, content, entries int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w, err := newSnapshotWriter(file)
	if err != nil {
		return err
	}
	if _, err := w.Write(tar); err != nil {
		return err
	}
	return w.finish(&trailer{Content: content, Entries: entries})
}

// WritePackedSnapshot writes a snapshot with these bytes as its compressed tar and
// this uncompressed size in its trailer.
func WritePackedSnapshot(path string, packed []byte, unpacked int64) error {
	t := trailer{Packed: int64(len(packed)), Unpacked: unpacked, Content: unpacked / 2, Entries: 1000, Digest: sha256.Sum256(packed)}
	return os.WriteFile(path, append(packed, t.encode()...), 0o600)
}

// CollectIfDue is what Run does about once an hour.
func (c *Collector) CollectIfDue(ctx context.Context) { c.collectIfDue(ctx) }
