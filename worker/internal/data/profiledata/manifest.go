package profiledata

import (
	"context"
	"crypto/md5" //nolint:gosec // for Content-MD5
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/google/uuid"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// errStore means that the object store failed.
var errStore = errors.New("the store of profile data failed")

const manifestName = "manifest"

// manifest describes a version: a tar, cut into chunks.
type manifest struct {
	SavedAt  int64      `json:"savedAt"`  // Unix time in nanoseconds
	Unpacked int64      `json:"unpacked"` // bytes of the tar
	Content  int64      `json:"content"`  // bytes of the files in it
	Entries  int64      `json:"entries"`
	Digest   string     `json:"digest"` // SHA-256 of the tar
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
func (r *Remote) put(ctx context.Context, b *box, name string, content []byte) (int64, error) {
	sealed := b.seal(name, content)
	sum := md5.Sum(sealed) //nolint:gosec // the store refuses an object that was changed on the way
	err := r.opts.Bucket.WriteAll(ctx, name, sealed, &blob.WriterOptions{ContentType: "application/octet-stream", ContentMD5: sum[:]})
	if err != nil {
		return 0, storeError("write", name, err)
	}
	return int64(len(sealed)), nil
}

// get reads an object.
func (r *Remote) get(ctx context.Context, b *box, name string) ([]byte, error) {
	sealed, err := r.opts.Bucket.ReadAll(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, damaged("object %s is missing", name)
	}
	if err != nil {
		return nil, storeError("read", name, err)
	}
	return b.open(name, sealed)
}

func storeError(what, name string, err error) error {
	return fmt.Errorf("%w: %s %s: %w", errStore, what, name, err)
}

func (r *Remote) readManifest(ctx context.Context, b *box, profileID, version uuid.UUID) (m manifest, err error) {
	raw, err := r.get(ctx, b, b.objectName(profileID, version, manifestName))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, damaged("manifest: %w", err)
	}
	return m, m.check()
}
