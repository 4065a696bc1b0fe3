package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

const (
	lockPollSeconds = 1   // the smallest interval of the locker
	lockTries       = 600 // ten minutes, for the migrations of another replica
)

// Migrate applies the missing migrations and logs each of them.
// Any number of replicas may call it at the same time: one migrates under a
// PostgreSQL session lock; the others wait at most ten minutes, then find nothing
// to do. A schema that is newer than the program is used as it is if it is
// compatible, because during a rolling update an old replica may restart; otherwise
// Migrate returns an error.
func Migrate(ctx context.Context, db *sql.DB, logger *slog.Logger) error {
	return migrate(ctx, db, Files(), logger)
}

func migrate(ctx context.Context, db *sql.DB, files fs.FS, logger *slog.Logger) error {
	provider, err := newProvider(db, files)
	if err != nil {
		return err
	}
	current, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	if current > newest {
		oldest, err := oldestCompatible(ctx, db)
		if err != nil {
			return err
		}
		if err := (Schema{Version: current, Program: newest, Oldest: oldest}).Check(); err != nil {
			return err
		}
		logger.WarnContext(ctx, "database schema is newer than this program, but compatible",
			"schemaVersion", current, "programVersion", newest)
	}
	results, err := provider.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		results = partial.Applied
	}
	for _, r := range results {
		logger.InfoContext(ctx, "migration applied",
			"version", r.Source.Version, "file", path.Base(r.Source.Path), "duration", r.Duration)
	}
	if err != nil {
		return fmt.Errorf("apply the migrations: %w", err)
	}
	return nil
}

func newProvider(db *sql.DB, files fs.FS) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPollSeconds, lockTries))
	if err != nil {
		return nil, fmt.Errorf("make the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(withoutTimeouts{locker}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}

// withoutTimeouts removes the pool's timeouts from the connection that migrates:
// rewriting a large table may take longer than any request should. A migration
// still gives up waiting for a table lock after 30 seconds, because the traffic
// that queues behind it waits too.
type withoutTimeouts struct{ lock.SessionLocker }

func (u withoutTimeouts) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if err := u.SessionLocker.SessionLock(ctx, conn); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, `SET statement_timeout = 0; SET lock_timeout = '30s'`)
	if err != nil {
		return errors.Join(err, u.SessionLocker.SessionUnlock(context.WithoutCancel(ctx), conn))
	}
	return nil
}

func (u withoutTimeouts) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `RESET statement_timeout; RESET lock_timeout`)
	return errors.Join(err, u.SessionLocker.SessionUnlock(ctx, conn))
}
