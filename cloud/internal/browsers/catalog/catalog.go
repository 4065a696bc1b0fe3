// Package catalog manages the browser builds that workers install (specification
// 4.2): the list in the database and the archives in a store.
package catalog

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// Build identifies a build by version, operating system and architecture.
type Build struct {
	Version string `db:"version"` // four numbers
	OS      string `db:"os"`      // linux, macos or windows
	Arch    string `db:"arch"`    // x86_64 or arm64
}

// String returns the build as in "156.0.8078.79 for linux x86_64".
func (b Build) String() string { return b.Version + " for " + b.OS + " " + b.Arch }

// Release is a published build.
type Release struct {
	ID uuid.UUID `db:"id"`
	Build
	Major       int32     `db:"major"`
	Channel     string    `db:"channel"`    // stable, beta, dev or canary
	SizeBytes   int64     `db:"size_bytes"` // of the zip archive
	SHA256      string    `db:"sha256"`     // of the archive, in hexadecimal
	ObjectKey   string    `db:"object_key"` // in the store
	PublishedAt time.Time `db:"published_at"`
}

// Service is the catalog, which all organizations share.
type Service struct {
	DB    *sqlx.DB
	Store *blob.Bucket
	Clock clock.Clock
}

// Filter filters releases; nil fields do not filter.
type Filter struct {
	OS    *string
	Arch  *string
	Major *int32
}

const columns = `id, version, major, channel, os, arch, size_bytes, sha256, object_key, published_at`

// sortColumns maps sortBy of the API to sort expressions. Versions are compared number
// by number.
var sortColumns = map[string]string{
	"publishedAt": "published_at",
	"version":     "string_to_array(version, '.')::integer[]",
	"sizeBytes":   "size_bytes",
}

// List returns a page of the releases.
func (s *Service) List(ctx context.Context, filter Filter, req page.Request) (page.Page[Release], error) {
	where, args := filter.where()
	result := page.Page[Release]{Request: req, Items: []Release{}}
	if err := s.DB.GetContext(ctx, &result.Total, `SELECT count(*) FROM chromium_releases`+where, args...); err != nil {
		return result, fmt.Errorf("count the releases: %w", err)
	}
	err := s.DB.SelectContext(ctx, &result.Items, fmt.Sprintf(`SELECT %s FROM chromium_releases%s%s LIMIT %d OFFSET %d`,
		columns, where, req.OrderBy(sortColumns), req.Limit, req.Offset()), args...)
	if err != nil {
		return result, fmt.Errorf("list the releases: %w", err)
	}
	return result, nil
}

func (f Filter) where() (clause string, args []any) {
	var conditions []string
	add := func(column string, value any) {
		args = append(args, value)
		conditions = append(conditions, fmt.Sprintf("%s = $%d", column, len(args)))
	}
	if f.OS != nil {
		add("os", *f.OS)
	}
	if f.Arch != nil {
		add("arch", *f.Arch)
	}
	if f.Major != nil {
		add("major", *f.Major)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

// Open returns the archive of a release as a stream, which ends with ctx.
func (s *Service) Open(ctx context.Context, r Release) (io.ReadSeekCloser, error) {
	reader, err := s.Store.NewReader(ctx, r.ObjectKey, nil)
	if err == nil && reader.Size() != r.SizeBytes {
		_ = reader.Close()
		err = fmt.Errorf("the archive has %d bytes, not %d", reader.Size(), r.SizeBytes)
	}
	switch {
	case err == nil:
		return reader, nil
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, fmt.Errorf("the archive of %s is not in the store: %w", r.Build, err)
	default:
		return nil, fault.Wrap(err, fault.Unavailable, "The archive is temporarily unavailable.")
	}
}
