package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sys/unix"
)

const (
	partSuffix = ".part"
	// maxFailures limits the retries of a download without progress.
	maxFailures = 5
	// stallTimeout is how long a download may stall before it is retried.
	stallTimeout = 30 * time.Second
)

// partialDownload is a partial download. Its file is named after the expected
// checksum.
type partialDownload struct {
	file *os.File
	hash hash.Hash
	size int64
}

// download downloads the archive, or the rest of it, and verifies it.
func (i *Installer) download(ctx context.Context, r Release) (path string, err error) {
	path = i.workPath(r.SHA256 + partSuffix)
	p, err := openPartial(path)
	if err != nil {
		return "", err
	}
	defer p.file.Close()
	if err := i.checkDiskSpace(r.SizeBytes - p.size); err != nil {
		return "", err
	}
	meter := i.meter("Downloading "+r.Version, p.size, r.SizeBytes)
	err = i.fetch(ctx, r, p, meter)
	meter.End()
	if err == nil {
		err = p.verify(r)
	}
	if errors.Is(err, errMismatch) {
		os.Remove(path)
	}
	return path, err
}

func openPartial(path string) (*partialDownload, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the download: %w", err)
	}
	p := &partialDownload{file: file, hash: sha256.New()}
	if p.size, err = io.Copy(p.hash, file); err != nil {
		file.Close()
		return nil, fmt.Errorf("read the partial download: %w", err)
	}
	return p, nil
}

// fetch downloads until the archive is complete, with retries.
func (i *Installer) fetch(ctx context.Context, r Release, p *partialDownload, meter Meter) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = i.Pause, 10*time.Second
	if i.Pause == 0 {
		pauses.InitialInterval = 500 * time.Millisecond
	}
	furthest := p.size
	for failures := 0; p.size != r.SizeBytes; {
		err := i.fetchOnce(ctx, r, p, meter)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p.size > furthest {
			furthest, failures = p.size, 0
			pauses.Reset()
		}
		if failures++; isFinal(err) || failures > maxFailures {
			return fmt.Errorf("download: %w", err)
		}
		if errors.Is(err, ErrOutOfRange) {
			if err := p.restart(meter); err != nil {
				return err
			}
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func isFinal(err error) bool {
	return errors.Is(err, ErrPermanent) || errors.Is(err, ErrChanged) || errors.Is(err, errMismatch)
}

// errMismatch means that the download differs from the catalog entry.
var errMismatch = errors.New("the download does not match the catalog")

// fetchOnce reads one response to its end.
func (i *Installer) fetchOnce(ctx context.Context, r Release, p *partialDownload, meter Meter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(stallTimeout, cancel)
	defer watch.Stop()
	content, begin, err := i.Source.Open(ctx, r, p.size)
	if err != nil {
		return err
	}
	defer content.Close()
	if begin != p.size {
		if err := p.restart(meter); err != nil {
			return err
		}
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := content.Read(buffer)
		watch.Reset(stallTimeout)
		if p.size+int64(n) > r.SizeBytes {
			return fmt.Errorf("%w: it is longer than %d bytes", errMismatch, r.SizeBytes)
		}
		if err := p.append(buffer[:n]); err != nil {
			return err
		}
		_, _ = meter.Write(buffer[:n])
		if errors.Is(err, io.EOF) && p.size < r.SizeBytes {
			return io.ErrUnexpectedEOF
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *partialDownload) append(b []byte) error {
	if _, err := p.file.WriteAt(b, p.size); err != nil {
		return fmt.Errorf("%w: write the download: %w", ErrPermanent, err)
	}
	p.hash.Write(b)
	p.size += int64(len(b))
	return nil
}

func (p *partialDownload) restart(meter Meter) error {
	p.hash.Reset()
	p.size = 0
	meter.Restart(0)
	if err := p.file.Truncate(0); err != nil {
		return fmt.Errorf("%w: write the download: %w", ErrPermanent, err)
	}
	return nil
}

func (p *partialDownload) verify(r Release) error {
	if got := hex.EncodeToString(p.hash.Sum(nil)); got != r.SHA256 {
		return fmt.Errorf("%w: its SHA-256 is %s, not %s", errMismatch, got, r.SHA256)
	}
	return nil
}

// reservedSpace is the disk space that an install leaves free.
const reservedSpace = 64 << 20

// checkDiskSpace returns an error unless this many bytes fit on the disk.
func (i *Installer) checkDiskSpace(bytes int64) error {
	free := i.Free
	if free == nil {
		free = freeSpace
	}
	have, err := free(i.Dir)
	if err != nil {
		return fmt.Errorf("check disk space: %w", err)
	}
	if bytes+reservedSpace > have {
		return fmt.Errorf("not enough disk space in %s: %d MB are needed, %d MB are free", i.Dir, (bytes+reservedSpace)>>20, have>>20)
	}
	return nil
}

func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

func (i *Installer) meter(label string, done, total int64) Meter {
	if i.Meter == nil {
		return noMeter{}
	}
	return i.Meter(label, done, total)
}

type noMeter struct{}

func (noMeter) Write(b []byte) (int, error) { return len(b), nil }
func (noMeter) Restart(int64)               {}
func (noMeter) End()                        {}
