package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/fault"
)

// The permitted values, which the document repeats.
var (
	systems  = []string{"linux", "macos", "windows"}
	archs    = []string{"x86_64", "arm64"}
	channels = []string{"stable", "beta", "dev", "canary"}
	version  = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,5}){3}$`)
)

// Publication is an archive to publish.
type Publication struct {
	Build
	Channel string
	File    *os.File
	// Progress, if set, receives the bytes that are uploaded.
	Progress io.Writer
}

// Publish stores and lists an archive. Publishing the same archive again has no
// effect; a different archive for the same build is a Conflict, because workers
// may have installed the first one.
func (s *Service) Publish(ctx context.Context, p Publication) (Release, error) {
	if err := p.validate(); err != nil {
		return Release{}, err
	}
	info, err := p.File.Stat()
	if err != nil {
		return Release{}, err
	}
	if err := checkArchive(p.File, info.Size()); err != nil {
		message := fmt.Sprintf("%s cannot be published: %v", p.File.Name(), err)
		return Release{}, fault.New(fault.Validation, message, fault.Detail{Field: "file", Code: fault.Custom, Message: err.Error()})
	}
	sum, err := hashOf(p.File)
	if err != nil {
		return Release{}, err
	}
	r := Release{
		ID: uuid.Must(uuid.NewV7()), Build: p.Build, Channel: p.Channel, SizeBytes: info.Size(), SHA256: sum,
		ObjectKey:   fmt.Sprintf("chromium/%s/%s-%s/%s.zip", p.Version, p.OS, p.Arch, sum),
		PublishedAt: s.Clock.Now(),
	}
	present, err := s.Find(ctx, p.Build)
	switch {
	case err == nil && present.SHA256 == sum:
		return present, nil
	case err == nil:
		return Release{}, errAlreadyPublished(p.Build)
	case !fault.Is(err, fault.NotFound):
		return Release{}, err
	}
	if err := s.store(ctx, p, r); err != nil {
		return Release{}, fmt.Errorf("store %s: %w", p.Build, err)
	}
	return s.insert(ctx, r)
}

func (p Publication) validate() error {
	var problems []string
	var details []fault.Detail
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			problem := fmt.Sprintf(format, args...)
			problems = append(problems, problem)
			details = append(details, fault.Detail{Field: field, Code: fault.Custom, Message: problem})
		}
	}
	check(version.MatchString(p.Version), "version", "the version must be four numbers, such as 156.0.8078.79, not %q", p.Version)
	check(slices.Contains(systems, p.OS), "os", "the operating system must be one of %s, not %q", strings.Join(systems, ", "), p.OS)
	check(slices.Contains(archs, p.Arch), "arch", "the processor must be one of %s, not %q", strings.Join(archs, ", "), p.Arch)
	check(slices.Contains(channels, p.Channel), "channel", "the channel must be one of %s, not %q", strings.Join(channels, ", "), p.Channel)
	if len(problems) > 0 {
		return fault.New(fault.Validation, strings.Join(problems, "; "), details...)
	}
	return nil
}

func errAlreadyPublished(b Build) error {
	return fault.New(fault.Conflict, "Another archive is already published as "+b.String()+". Remove it first.")
}

// store uploads the file. An object appears only if it is complete and has the
// expected hash.
func (s *Service) store(ctx context.Context, p Publication, r Release) error {
	if _, err := p.File.Seek(0, io.SeekStart); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	object, err := s.Store.NewWriter(ctx, r.ObjectKey, &blob.WriterOptions{ContentType: "application/zip"})
	if err != nil {
		return err
	}
	hash, progress := sha256.New(), p.Progress
	if progress == nil {
		progress = io.Discard
	}
	_, err = io.Copy(io.MultiWriter(object, hash, progress), p.File)
	if err == nil && hex.EncodeToString(hash.Sum(nil)) != r.SHA256 {
		err = errors.New("the file changed while it was being read")
	}
	if err != nil {
		cancel() // so that Close does not create the object
	}
	return errors.Join(err, object.Close())
}

func (s *Service) insert(ctx context.Context, r Release) (Release, error) {
	err := s.DB.GetContext(ctx, &r, `
		INSERT INTO chromium_releases (id, version, channel, os, arch, size_bytes, sha256, object_key, published_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING `+columns,
		r.ID, r.Version, r.Channel, r.OS, r.Arch, r.SizeBytes, r.SHA256, r.ObjectKey, r.PublishedAt)
	if pg.IsUnique(err, "chromium_releases_build") {
		present, findErr := s.Find(ctx, r.Build)
		if findErr == nil && present.SHA256 == r.SHA256 {
			return present, nil
		}
		return Release{}, errors.Join(errAlreadyPublished(r.Build), s.discard(ctx, r))
	}
	if err != nil {
		return Release{}, fmt.Errorf("list %s: %w", r.Build, err)
	}
	return r, nil
}

// Remove removes a build from the catalog and its archive from the store. Workers
// that have installed it keep it.
func (s *Service) Remove(ctx context.Context, b Build) (Release, error) {
	r, err := s.Find(ctx, b)
	if err != nil {
		return Release{}, err
	}
	if _, err := s.DB.ExecContext(ctx, `DELETE FROM chromium_releases WHERE id = $1`, r.ID); err != nil {
		return Release{}, fmt.Errorf("remove %s: %w", b, err)
	}
	return r, s.discard(ctx, r)
}

func (s *Service) discard(ctx context.Context, r Release) error {
	err := s.Store.Delete(ctx, r.ObjectKey)
	if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("remove the archive of %s from the store: %w", r.Build, err)
	}
	return nil
}

func hashOf(file *os.File) (string, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("read %s: %w", file.Name(), err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
