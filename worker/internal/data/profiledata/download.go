package profiledata

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
)

// restore unpacks a version into an empty directory.
func (h *Handle) restore(ctx context.Context, version uuid.UUID, into *os.Root) error {
	began := time.Now()
	m, err := h.store.readManifest(ctx, h.box, h.use.ProfileID, version)
	if err != nil {
		return err
	}
	if m.Content > h.store.opts.MaxBytes {
		return tooLarge(m.Content, m.Entries, h.store.opts.MaxBytes)
	}
	archive := h.open(ctx, m)
	defer archive.close()
	skipped, err := unpackTar(ctx, archive, counts{m.Content, m.Entries}, into)
	if err != nil {
		return err
	}
	skipped.log(h.log, "some entries of the profile data were not restored")
	h.base, h.use.Current = m, &version
	h.log.Debug("profile data restored", "version", version, "bytes", m.Content, "entries", m.Entries, "took", time.Since(began))
	return nil
}

// verify reads a version completely. Errors: errDamaged, those of the store.
func (h *Handle) verify(ctx context.Context, version uuid.UUID) error {
	m, err := h.store.readManifest(ctx, h.box, h.use.ProfileID, version)
	if err != nil {
		return err
	}
	archive := h.open(ctx, m)
	defer archive.close()
	_, err = io.Copy(io.Discard, archive)
	return err
}

// fetched is the content of one chunk.
type fetched struct {
	content []byte
	err     error
}

// open returns a reader of a version's tar. It reads some chunks at a time. The caller
// closes it.
func (h *Handle) open(ctx context.Context, m manifest) *versionReader {
	ctx, cancel := context.WithCancel(ctx)
	all, free := make(chan chan fetched, transfers), make(chan []byte, transfers)
	go func() {
		defer close(all)
		for _, ref := range m.Chunks {
			next := make(chan fetched, 1)
			select {
			case all <- next:
			case <-ctx.Done():
				return
			}
			go func() {
				var buffer []byte
				select {
				case buffer = <-free:
				default:
				}
				content, err := h.fetchChunk(ctx, ref, buffer)
				next <- fetched{content, err}
			}()
		}
	}()
	return &versionReader{ctx: ctx, cancel: cancel, fetched: all, free: free}
}

func (h *Handle) fetchChunk(ctx context.Context, ref chunkRef, buffer []byte) ([]byte, error) {
	name := h.box.objectName(h.use.ProfileID, ref.Version, ref.ID)
	content, err := h.store.get(ctx, h.box, name, buffer)
	if err == nil && int64(len(content)) != ref.Size {
		err = damaged("object %s has %d bytes, not %d as stated", name, len(content), ref.Size)
	}
	return content, err
}

// versionReader reads the tar of a version. The encryption authenticates each chunk under
// its name, and the manifest with their order.
type versionReader struct {
	ctx     context.Context
	cancel  context.CancelFunc
	fetched <-chan chan fetched // in the order of the chunks; closed after the last, or when ctx ends
	free    chan<- []byte       // buffers of chunks that were read
	content []byte
	chunk   bytes.Reader
}

// Read implements io.Reader.
func (r *versionReader) Read(p []byte) (int, error) {
	for r.chunk.Len() == 0 {
		select {
		case r.free <- r.content:
		default:
		}
		r.content = nil
		next, more := <-r.fetched
		if !more {
			if err := r.ctx.Err(); err != nil { // not the end of the tar
				return 0, err
			}
			return 0, io.EOF
		}
		chunk := <-next
		if chunk.err != nil {
			return 0, chunk.err
		}
		r.content = chunk.content
		r.chunk.Reset(r.content)
	}
	return r.chunk.Read(p)
}

// close cancels the requests and waits for them.
func (r *versionReader) close() {
	r.cancel()
	for next := range r.fetched {
		<-next
	}
}
