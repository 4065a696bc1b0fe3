package db

import (
	"context"
	"database/sql"
	"fmt"
)

// MigrateFiles is Migrate with other migrations.
var MigrateFiles = migrate

// Version returns the highest version applied to the database and the highest
// one this program knows. A database that was never migrated is at 0.
func Version(ctx context.Context, db *sql.DB) (current, newest int64, err error) {
	provider, err := newProvider(db, Files())
	if err != nil {
		return 0, 0, err
	}
	current, newest, err = provider.GetVersions(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read the schema version: %w", err)
	}
	return current, newest, nil
}
