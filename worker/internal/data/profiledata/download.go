package profiledata

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
)

// restore unpacks a version into an empty directory.
func (h *RemoteHandle) restore(ctx context.Context, version uuid.UUID, into *os.Root) error {
	began := time.Now()
	m, err := h.remote.readManifest(ctx, h.box, h.use.ProfileID, version)
	if err != nil {
		return err
	}
	if m.Content > h.remote.opts.MaxBytes {
		return tooLarge(m.Content, m.Entries, h.remote.opts.MaxBytes)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := &versionReader{digest: sha256.New(), manifest: m, fetched: h.fetch(ctx, m)}
	defer from.close(cancel)
	skipped, err := unpackTar(ctx, from, counts{m.Content, m.Entries}, into)
	if err != nil {
		return err
	}
	skipped.log(h.log, "some entries of the profile data were not restored")
	h.base = m
	h.log.Debug("profile data restored", "version", version, "bytes", m.Content, "entries", m.Entries, "took", time.Since(began))
	return nil
}

// fetched is the content of one chunk.
type fetched struct {
	content []byte
	err     error
}

// fetch reads the chunks of a manifest, some at a time. The channel yields them in their
// order and is closed after the last, or when ctx ends.
func (h *RemoteHandle) fetch(ctx context.Context, m manifest) <-chan chan fetched {
	all := make(chan chan fetched, transfers)
	go func() {
		defer close(all)
		for _, ref := range m.Chunks {
			one := make(chan fetched, 1)
			select {
			case all <- one:
			case <-ctx.Done():
				return
			}
			go func() {
				content, err := h.fetchChunk(ctx, ref)
				one <- fetched{content, err}
			}()
		}
	}()
	return all
}

func (h *RemoteHandle) fetchChunk(ctx context.Context, ref chunkRef) ([]byte, error) {
	name := h.box.objectName(h.use.ProfileID, ref.Version, ref.ID)
	content, err := h.remote.get(ctx, h.box, name)
	if err == nil && (int64(len(content)) != ref.Size || h.box.chunkID(content) != ref.ID) {
		err = damaged("object %s has other content than stated", name)
	}
	return content, err
}

// versionReader reads the tar of a version. Each chunk is verified before it is returned.
type versionReader struct {
	manifest manifest
	fetched  <-chan chan fetched
	chunk    bytes.Reader
	digest   hash.Hash
}

// Read implements io.Reader.
func (r *versionReader) Read(p []byte) (int, error) {
	for r.chunk.Len() == 0 {
		one, more := <-r.fetched
		if !more {
			return 0, io.EOF
		}
		next := <-one
		if next.err != nil {
			return 0, next.err
		}
		r.chunk.Reset(next.content)
	}
	n, err := r.chunk.Read(p)
	r.digest.Write(p[:n])
	return n, err
}

// check reads the rest and compares the checksum.
func (r *versionReader) check() error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	if hex.EncodeToString(r.digest.Sum(nil)) != r.manifest.Digest {
		return damaged("its checksum does not match")
	}
	return nil
}

// close cancels the requests and waits for them.
func (r *versionReader) close(cancel context.CancelFunc) {
	cancel()
	for one := range r.fetched {
		<-one
	}
}
