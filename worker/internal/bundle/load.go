package bundle

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
)

//go:embed presets/*.json
var presets embed.FS

// What a directory of bundles may hold.
const (
	maxFileSize = 64 << 10 // bytes
	maxFiles    = 1000
)

var filenamePattern = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,122}\.json$`)

// FileError is one thing that is wrong with a bundle's file.
type FileError struct {
	File    string
	Field   string // dotted path; empty when it is about the whole file
	Message string
}

// Error implements error.
func (e FileError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s: %s %s", e.File, e.Field, e.Message)
}

// Load reads the built-in bundles and, unless dir is empty, every *.json of
// it; all other files, hidden ones and directories are left alone. Links may
// not lead out of it.
//
// Anything wrong is an error that holds a FileError for each thing: a worker that started
// without one of its bundles would present another identity than it was asked
// for, and nobody would notice.
func Load(dir string) (*Set, error) {
	builtIn, err := fs.Sub(presets, "presets")
	if err != nil {
		return nil, fmt.Errorf("load bundles: %w", err)
	}
	bundles, problems := readBundles(builtIn)
	if dir != "" {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, fmt.Errorf("load bundles: %w", err)
		}
		defer root.Close()
		more, wrong := readBundles(root.FS())
		bundles, problems = append(bundles, more...), append(problems, wrong...)
	}
	problems = append(problems, findDuplicates(bundles)...)
	if len(problems) > 0 {
		return nil, fmt.Errorf("load bundles:\n%w", errors.Join(problems...))
	}
	slices.SortFunc(bundles, func(a, b Bundle) int { return cmp.Compare(a.Filename, b.Filename) })
	return &Set{bundles: bundles}, nil
}

func readBundles(from fs.FS) (bundles []Bundle, problems []error) {
	entries, err := fs.ReadDir(from, ".")
	if err != nil {
		return nil, []error{err}
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() || strings.HasPrefix(e.Name(), ".") || !strings.EqualFold(extension(e.Name()), ".json")
	})
	if len(entries) > maxFiles {
		return nil, []error{fmt.Errorf("%d files are more than the %d that are read", len(entries), maxFiles)}
	}
	for _, e := range entries {
		b, wrong := readFile(from, e.Name())
		for _, p := range wrong {
			problems = append(problems, p)
		}
		bundles = append(bundles, b)
	}
	return bundles, problems
}

// readFile returns a bundle of that filename even when there are problems, so
// that these include those with other files.
func readFile(from fs.FS, name string) (Bundle, []FileError) {
	fail := func(format string, args ...any) (Bundle, []FileError) {
		return Bundle{Filename: name}, []FileError{{File: name, Message: fmt.Sprintf(format, args...)}}
	}
	if !filenamePattern().MatchString(name) {
		return fail("is not a usable name: letters, digits, dots, dashes and underscores, ending in .json, at most 128")
	}
	info, err := fs.Stat(from, name)
	switch {
	case err != nil:
		return fail("can't be read: %v", err)
	case !info.Mode().IsRegular():
		return fail("is not a file")
	case info.Size() > maxFileSize:
		return fail("is larger than %d bytes", maxFileSize)
	}
	raw, err := fs.ReadFile(from, name)
	if err != nil {
		return fail("can't be read: %v", err)
	}
	return decode(name, raw)
}

// findDuplicates finds filenames that differ in their case at most.
func findDuplicates(bundles []Bundle) []error {
	var problems []error
	seen := make(map[string]bool)
	for _, b := range bundles {
		key := strings.ToLower(b.Filename)
		if seen[key] {
			problems = append(problems, FileError{File: b.Filename, Message: "has the name of another bundle, perhaps of a built-in one"})
		}
		seen[key] = true
	}
	return problems
}

func extension(name string) string { return name[max(strings.LastIndexByte(name, '.'), 0):] }
