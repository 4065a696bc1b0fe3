package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNotInstalled means that PostgreSQL is not installed on this machine.
var ErrNotInstalled = errors.New("no PostgreSQL server found on this machine: install the Debian package postgresql, or name the directory of its programs")

// FindBin returns the directory of the PostgreSQL programs (postgres, initdb, pg_dump,
// ...). It searches the PATH, then pg_config, then the usual directories with the
// highest version first. With a major version, such as "15", only that version is
// accepted; "" accepts any.
func FindBin(ctx context.Context, major string) (string, error) {
	var found []string
	for _, dir := range candidates(ctx) {
		version, err := Version(ctx, dir)
		if err != nil {
			continue
		}
		if major == "" || version == major {
			return dir, nil
		}
		found = append(found, version)
	}
	if len(found) > 0 {
		return "", fmt.Errorf("the data needs PostgreSQL %s, but this machine has %s: install the Debian package postgresql-%s",
			major, strings.Join(found, ", "), major)
	}
	return "", ErrNotInstalled
}

func candidates(ctx context.Context) []string {
	var dirs []string
	if postgres, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(postgres); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	if out, err := commandOutput(ctx, "pg_config", "--bindir"); err == nil {
		dirs = append(dirs, out)
	}
	var usual []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",      // Debian, Ubuntu
		"/usr/pgsql-*/bin",               // Red Hat, from the PostgreSQL project
		"/usr/libexec/postgresql*",       // Alpine
		"/usr/lib/postgresql*/bin",       // SUSE
		"/usr/local/pgsql/bin",           // built from source
		"/opt/homebrew/opt/postgresql*/", // Homebrew
	} {
		matches, _ := filepath.Glob(pattern) // fails only for an invalid pattern
		usual = append(usual, matches...)
	}
	slices.SortStableFunc(usual, func(a, b string) int { return cmp.Compare(firstNumber(b), firstNumber(a)) })
	return append(dirs, usual...)
}

var digits = regexp.MustCompile(`\d+`)

func firstNumber(path string) int {
	n, _ := strconv.Atoi(digits.FindString(path))
	return n
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// Version returns the major version of the server in dir, such as "15", or an error if
// dir does not contain postgres or initdb.
func Version(ctx context.Context, dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return "", err
	}
	out, err := commandOutput(ctx, filepath.Join(dir, "postgres"), "--version")
	if err != nil {
		return "", err
	}
	match := versionText.FindStringSubmatch(out)
	if match == nil {
		return "", fmt.Errorf("unknown version text %q", out)
	}
	return match[1], nil
}

func commandOutput(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	return strings.TrimSpace(string(out)), err
}
