package dbtest

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/browser-svc/svc/db/embedded"
)

// Schema returns the output of pg_dump for the schema of a database, without
// version-dependent parts and the goose tables. Two databases have the same schema
// if and only if the texts are equal.
func Schema(ctx context.Context, dsn string) (string, error) {
	bin, err := embedded.FindBin(ctx, "")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "pg_dump"), "--schema-only",
		"--no-owner", "--no-privileges", "--exclude-table=goose_db_version*", "--dbname="+dsn)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("pg_dump: %w: %s", err, complaint.String())
	}
	return normalize(string(out)), nil
}

// normalize drops comment lines, psql's commands and session settings, and
// leaves one empty line between statements.
func normalize(dump string) string {
	var lines []string
	for line := range strings.SplitSeq(dump, "\n") {
		line = strings.TrimRight(line, " ")
		switch {
		case strings.HasPrefix(line, "--"), strings.HasPrefix(line, `\`),
			strings.HasPrefix(line, "SET "), strings.HasPrefix(line, "SELECT pg_catalog.set_config("):
			continue
		case line == "" && (len(lines) == 0 || lines[len(lines)-1] == ""):
			continue
		}
		lines = append(lines, line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n")) + "\n"
}
