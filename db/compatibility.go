package db

import (
	"context"
	"database/sql"
	"fmt"
)

// Schema is the version of a database's schema, compared with this program. The version
// of a schema is the number of its newest migration.
type Schema struct {
	Version int64 // 0 if the database was never migrated
	Program int64 // the newest version that this program knows
	Oldest  int64 // if Version is above Program: the oldest compatible program
}

// ReadSchema reads the version of the schema. It changes nothing.
func ReadSchema(ctx context.Context, db *sql.DB) (Schema, error) {
	provider, err := newProvider(db, Files())
	if err != nil {
		return Schema{}, err
	}
	sources := provider.ListSources()
	s := Schema{Program: sources[len(sources)-1].Version}
	var migrated bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&migrated); err != nil {
		return s, fmt.Errorf("read the schema version: %w", err)
	}
	if !migrated {
		return s, nil
	}
	if err := db.QueryRowContext(ctx, `SELECT COALESCE(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&s.Version); err != nil {
		return s, fmt.Errorf("read the schema version: %w", err)
	}
	if s.Version <= s.Program {
		return s, nil
	}
	s.Oldest, err = oldestCompatible(ctx, db)
	return s, err
}

// Check returns an error if this program cannot run on the schema as it is.
func (s Schema) Check() error {
	switch {
	case s.Version == 0:
		return fmt.Errorf("the database has no schema: restore the backup, or run svc-cloud migrate")
	case s.Version < s.Program:
		return fmt.Errorf("the schema has version %d, older than version %d of this program: run svc-cloud migrate", s.Version, s.Program)
	case s.Version > s.Program && s.Oldest > s.Program:
		return fmt.Errorf("the schema has version %d, which needs a program of version %d or later, but this program has version %d: "+
			"run a newer release, or restore the backup from before the upgrade", s.Version, s.Oldest, s.Program)
	default:
		return nil
	}
}

func oldestCompatible(ctx context.Context, db *sql.DB) (oldest int64, err error) {
	if err := db.QueryRowContext(ctx, `SELECT oldest_version FROM schema_compatibility`).Scan(&oldest); err != nil {
		return 0, fmt.Errorf("read the oldest program that is compatible with the schema: %w", err)
	}
	return oldest, nil
}
