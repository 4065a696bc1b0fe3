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

// Limits of a directory of bundles.
const (
	maxFileSize = 64 << 10 // bytes
	maxFiles    = 1000
)

var filenamePattern = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,122}\.json$`)

// FileError is an error in a bundle file.
type FileError struct {
	File    string
	Field   string // dotted path; empty for the complete file
	Message string
}

// Error implements error.
func (e FileError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s: %s %s", e.File, e.Field, e.Message)
}

// Load reads the built-in bundles and every *.json file in dir, which need not exist.
// Other files, hidden files and directories are ignored. Links must not lead
// out of dir.
//
// Load fails on any error, and its error contains a FileError for each. A worker
// that started without a bundle would silently present another identity than
// requested.
func Load(dir string) (*Set, error) {
	builtIn, err := fs.Sub(presets, "presets")
	if err != nil {
		return nil, fmt.Errorf("load bundles: %w", err)
	}
	bundles, problems := readBundles(builtIn)
	root, err := os.OpenRoot(dir)
	switch {
	case err == nil:
		defer root.Close()
		more, wrong := readBundles(root.FS())
		bundles, problems = append(bundles, more...), append(problems, wrong...)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("load bundles: %w", err)
	}
	problems = append(problems, findDuplicates(bundles)...)
	if len(problems) > 0 {
		return nil, fmt.Errorf("load bundles:\n%w", errors.Join(problems...))
	}
	slices.SortFunc(bundles, func(a, b Bundle) int { return cmp.Compare(a.Filename, b.Filename) })
	return &Set{bundles: bundles}, nil
}

func readBundles(fsys fs.FS) (bundles []Bundle, problems []error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, []error{err}
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() || strings.HasPrefix(e.Name(), ".") || !strings.EqualFold(extension(e.Name()), ".json")
	})
	if len(entries) > maxFiles {
		return nil, []error{fmt.Errorf("%d files exceed the limit of %d", len(entries), maxFiles)}
	}
	for _, e := range entries {
		b, wrong := readFile(fsys, e.Name())
		for _, p := range wrong {
			problems = append(problems, p)
		}
		bundles = append(bundles, b)
	}
	return bundles, problems
}

// readFile returns a bundle even for a file with errors, so that errors between
// files are also found.
func readFile(fsys fs.FS, name string) (Bundle, []FileError) {
	fail := func(format string, args ...any) (Bundle, []FileError) {
		return Bundle{Filename: name}, []FileError{{File: name, Message: fmt.Sprintf(format, args...)}}
	}
	if !filenamePattern().MatchString(name) {
		return fail("must have a name of letters, digits, dots, dashes and underscores that ends in .json, with at most 128 characters")
	}
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return fail("cannot be read: %v", err)
	case !info.Mode().IsRegular():
		return fail("is not a file")
	case info.Size() > maxFileSize:
		return fail("is larger than %d bytes", maxFileSize)
	}
	raw, err := fs.ReadFile(fsys, name)
	if err != nil {
		return fail("cannot be read: %v", err)
	}
	return decode(name, raw)
}

// findDuplicates finds filenames that are equal except for case.
func findDuplicates(bundles []Bundle) []error {
	var problems []error
	names := make(map[string]bool)
	for _, b := range bundles {
		key := strings.ToLower(b.Filename)
		if names[key] {
			problems = append(problems, FileError{File: b.Filename, Message: "has the same name as another bundle, which may be built in"})
		}
		names[key] = true
	}
	return problems
}

func extension(name string) string { return name[max(strings.LastIndexByte(name, '.'), 0):] }
