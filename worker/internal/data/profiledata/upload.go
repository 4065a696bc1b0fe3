package profiledata

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/restic/chunker"
	"golang.org/x/sync/errgroup"
)

// Sizes of chunks: a small change sends at least one chunk, and each chunk is a request.
const (
	minChunk    = 64 << 10
	maxChunk    = 1 << 20
	averageBits = 18 // 256 KB
	transfers   = 8  // concurrent requests to the store of one version
)

// versionWriter adds a version to the store.
type versionWriter struct {
	h     *Handle
	id    uuid.UUID
	known map[string]chunkRef // chunks that need not be sent
	sent  atomic.Int64
}

// writeVersion waits for a slot. Then it adds a complete version, unless it is equal to the
// restored one.
func (w *versionWriter) writeVersion(ctx context.Context, source *os.Root) (m manifest, err error) {
	ctx, done, err := w.h.store.acquireSaveSlot(ctx)
	if err != nil {
		return m, err
	}
	defer done()
	if m, err = w.write(ctx, source); err != nil || m.hasChunksOf(w.h.base) {
		return m, err
	}
	if err := w.writeManifest(ctx, m); err != nil {
		return m, err
	}
	return m, w.send(ctx, pendingName, nil)
}

// write packs a directory, and adds the chunks that the store does not have.
func (w *versionWriter) write(ctx context.Context, source *os.Root) (m manifest, err error) {
	if err := measure(ctx, source, w.h.store.opts.MaxBytes); err != nil {
		return m, err
	}
	reader, writer := io.Pipe()
	p := &packer{ctx: ctx, source: source, max: w.h.store.opts.MaxBytes}
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error {
		entries := tar.NewWriter(writer)
		p.archive = entries
		err := errors.Join(p.pack(), entries.Close())
		_ = writer.CloseWithError(err) // never fails
		return err
	})
	tasks.Go(func() error {
		err := w.cut(ctx, reader, &m)
		_ = reader.CloseWithError(err) // never fails
		return err
	})
	if err := tasks.Wait(); err != nil {
		return manifest{}, err
	}
	p.skipped.log(w.h.log, "some entries of the profile data were not saved")
	m.SavedAt, m.Content, m.Entries = w.h.store.opts.Clock.Now().UnixNano(), p.content, p.entries
	return m, nil
}

// cut cuts a tar into chunks and sends the unknown ones.
func (w *versionWriter) cut(ctx context.Context, source io.Reader, m *manifest) error {
	sends, ctx := errgroup.WithContext(ctx)
	sends.SetLimit(transfers)
	cutter := chunker.NewWithBoundaries(source, w.h.box.polynomial, minChunk, maxChunk)
	cutter.SetAverageBits(averageBits)
	buffer := make([]byte, 0, maxChunk)
	for ctx.Err() == nil {
		chunk, err := cutter.Next(buffer[:0])
		if errors.Is(err, io.EOF) {
			return sends.Wait()
		}
		if err != nil {
			return errors.Join(err, sends.Wait())
		}
		id := w.h.box.chunkID(chunk.Data)
		ref, known := w.known[id]
		if !known {
			ref = chunkRef{ID: id, Version: w.id, Size: int64(len(chunk.Data))}
			w.known[id] = ref
			sends.Go(func() error { return w.send(ctx, id, chunk.Data) })
			buffer = make([]byte, 0, maxChunk) // the other one is being sent
		}
		m.Chunks = append(m.Chunks, ref)
		m.Unpacked += ref.Size
	}
	return errors.Join(ctx.Err(), sends.Wait())
}

func (w *versionWriter) send(ctx context.Context, name string, content []byte) error {
	n, err := w.h.store.put(ctx, w.h.box, w.h.box.objectName(w.h.use.ProfileID, w.id, name), content)
	w.sent.Add(n)
	return err
}

func (w *versionWriter) writeManifest(ctx context.Context, m manifest) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return w.send(ctx, manifestName, raw)
}
