package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/pg"
)

// templateName returns a name with the hash of the migrations.
func templateName() (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(db.Files(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(db.Files(), path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s\n", path, len(text), text)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read the migrations: %w", err)
	}
	return "svc_template_" + hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// ensureTemplate creates the template if it does not exist. Concurrent processes
// are serialized with an advisory lock. The template is renamed to its final name
// when it is complete.
func (s *server) ensureTemplate(ctx context.Context) error {
	name, err := templateName()
	if err != nil {
		return err
	}
	s.template = name
	conn, err := s.admin.Connx(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock(hashtext($1))`, name); err != nil {
		return fmt.Errorf("lock the template: %w", err)
	}
	defer func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock(hashtext($1))`, name)
	}()
	var exists bool
	if err := conn.GetContext(ctx, &exists, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name); err != nil || exists {
		return err
	}
	return s.makeTemplate(ctx, name)
}

func (s *server) makeTemplate(ctx context.Context, name string) error {
	draft := name + "_draft"
	if err := s.drop(draft); err != nil { // left by a process that was killed
		return err
	}
	if err := s.create(ctx, draft, "template0"); err != nil {
		return err
	}
	pool, err := pg.Open(ctx, s.address(draft), pg.Options{MaxOpen: 2})
	if err != nil {
		return err
	}
	err = db.Migrate(ctx, pool.DB, slog.New(slog.DiscardHandler))
	pool.Close()
	if err != nil {
		return err
	}
	_, err = s.admin.ExecContext(ctx, fmt.Sprintf(`ALTER DATABASE %s RENAME TO %s`, draft, name))
	return err
}
