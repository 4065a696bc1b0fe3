package profiledata

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// errDamaged means that a snapshot differs from what was written.
var errDamaged = errors.New("the snapshot is damaged")

// ErrTooLarge means that a profile exceeds the limits of the store.
var ErrTooLarge = errors.New("larger than PROFILE_DATA_MB allows")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errDamaged, fmt.Errorf(format, args...))
}

// trailer ends a snapshot. It is a frame that zstd skips, so that `tar --zstd` can
// read the file. Integers are little-endian.
type trailer struct {
	Magic, Length uint32 // of the frame
	Kind          [8]byte
	SavedAt       int64 // Unix time in nanoseconds
	Packed        int64 // bytes before the trailer
	Unpacked      int64 // bytes of the tar
	Content       int64 // bytes of the files in it
	Entries       int64
	Digest        [sha256.Size]byte // of the tar
	SelfDigest    [sha256.Size]byte // of the preceding fields
}

const (
	skippable  = 0x184D2A5E
	maxEntries = 200_000
	// maxHeaders bounds the size of an entry in the tar without its content.
	maxHeaders = 16 << 10
)

var (
	trailerKind = [8]byte{'s', 'v', 'c', 'd', 'a', 't', 'a', '1'}
	trailerSize = binary.Size(trailer{})
)

func (t *trailer) encode() []byte {
	t.Magic, t.Length, t.Kind = skippable, uint32(trailerSize-8), trailerKind
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, t) // writing to a buffer never fails
	raw := b.Bytes()
	t.SelfDigest = sha256.Sum256(raw[:len(raw)-sha256.Size])
	copy(raw[len(raw)-sha256.Size:], t.SelfDigest[:])
	return raw
}

// readTrailer returns the size of a snapshot and its trailer.
func readTrailer(path string) (size int64, t trailer, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, t, err
	}
	defer file.Close()
	return trailerOf(file)
}

func trailerOf(file *os.File) (size int64, t trailer, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, t, err
	}
	size = info.Size()
	if size < int64(trailerSize) {
		return size, t, damaged("it is only %d bytes long", size)
	}
	raw := make([]byte, trailerSize)
	if _, err := file.ReadAt(raw, size-int64(trailerSize)); err != nil {
		return size, t, damaged("read: %w", err)
	}
	_ = binary.Read(bytes.NewReader(raw), binary.LittleEndian, &t) // the sizes are equal
	if t.SelfDigest != sha256.Sum256(raw[:trailerSize-sha256.Size]) || t.Kind != trailerKind || t.Magic != skippable {
		return size, t, damaged("invalid trailer")
	}
	if t.Packed != size-int64(trailerSize) || t.Content < 0 || t.Unpacked < t.Content || t.Entries < 0 || t.Entries > maxEntries ||
		t.Unpacked > t.Content+(t.Entries+1)*maxHeaders {
		return size, t, damaged("inconsistent sizes in the trailer")
	}
	return size, t, nil
}

// snapshotWriter compresses a tar into a file and ends it with a trailer.
type snapshotWriter struct {
	file     *os.File
	buffer   *bufio.Writer
	encoder  *zstd.Encoder
	digest   hash.Hash
	unpacked int64
}

func newSnapshotWriter(file *os.File) (*snapshotWriter, error) {
	w := &snapshotWriter{file: file, buffer: bufio.NewWriterSize(file, bufferSize), digest: sha256.New()}
	var err error
	w.encoder, err = zstd.NewWriter(w.buffer, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(true), zstd.WithZeroFrames(true))
	return w, err
}

// Write implements io.Writer for the tar.
func (w *snapshotWriter) Write(p []byte) (int, error) {
	w.unpacked += int64(len(p))
	w.digest.Write(p)
	return w.encoder.Write(p)
}

// finish writes the trailer, whose time and counts are set by the caller, and syncs
// the file.
func (w *snapshotWriter) finish(t *trailer) error {
	if err := errors.Join(w.encoder.Close(), w.buffer.Flush()); err != nil {
		return err
	}
	packed, err := w.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	t.Packed, t.Unpacked = packed, w.unpacked
	w.digest.Sum(t.Digest[:0])
	if _, err := w.file.Write(t.encode()); err != nil {
		return err
	}
	return w.file.Sync()
}

// bufferSize is the size of read and write buffers.
const bufferSize = 256 << 10

// snapshotReader reads the tar of a snapshot. Its output is unverified until check
// succeeds.
type snapshotReader struct {
	trailer
	file    *os.File
	decoder *zstd.Decoder
	digest  hash.Hash
	read    int64
}

// openSnapshot opens a snapshot with a valid trailer.
func openSnapshot(ctx context.Context, path string) (*snapshotReader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &snapshotReader{file: file, digest: sha256.New()}
	if _, r.trailer, err = trailerOf(file); err != nil {
		file.Close()
		return nil, err
	}
	packed := bufio.NewReaderSize(&contextReader{ctx, io.NewSectionReader(file, 0, r.Packed)}, bufferSize)
	r.decoder, err = zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		file.Close()
		return nil, damaged("%w", err)
	}
	return r, nil
}

func (r *snapshotReader) close() {
	r.decoder.Close()
	r.file.Close()
}

// Read implements io.Reader for the tar. It returns io.EOF, context errors, or
// errDamaged, also for a tar that is longer than stated.
func (r *snapshotReader) Read(p []byte) (int, error) {
	n, err := r.decoder.Read(p)
	r.read += int64(n)
	r.digest.Write(p[:n])
	if r.read > r.Unpacked {
		return 0, damaged("it is larger than stated")
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return n, err
	}
	return n, damaged("%w", err)
}

// check reads the rest and compares size and checksum with the trailer.
func (r *snapshotReader) check() error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	if r.read != r.Unpacked || !bytes.Equal(r.digest.Sum(nil), r.Digest[:]) {
		return damaged("its checksum does not match")
	}
	return nil
}

// verifyFile reads a snapshot completely, from the disk and not from the page cache.
func (s *Store) verifyFile(ctx context.Context, path string) error {
	r, err := openSnapshot(ctx, path)
	if err != nil {
		return err
	}
	defer r.close()
	_ = unix.Fadvise(int(r.file.Fd()), 0, 0, unix.FADV_DONTNEED) // best effort
	return r.check()
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (p *contextReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.Reader.Read(b)
}

// copyExactly copies exactly size bytes through a buffer.
func copyExactly(to io.Writer, from io.Reader, size int64, buffer []byte) error {
	copied, err := io.CopyBuffer(to, io.LimitReader(from, size), buffer)
	if err == nil && copied < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
