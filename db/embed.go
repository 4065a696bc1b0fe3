// Package db is the schema of the cloud's database: the migrations, and the
// function that applies them.
package db

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Files returns the migrations, one SQL file each, at the root of the returned
// file system.
func Files() fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil { // only an invalid path can fail, and the path is a constant
		panic(fmt.Sprintf("db: %v", err))
	}
	return files
}
