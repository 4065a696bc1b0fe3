package catalog

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// executables are the file names of the browser executable on all systems.
var executables = []string{"chrome", "chromium", "headless_shell", "chrome-headless-shell", "chromium-browser"}

// maxDepth is the maximum directory depth of the browser executable.
const maxDepth = 2

// checkArchive returns an error unless the file is an archive that workers can
// install: a zip file with one browser, unique names and no path outside the
// archive.
func checkArchive(file io.ReaderAt, size int64) error {
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return fmt.Errorf("the file is not a zip archive: %w", err)
	}
	var found []string
	names := make(map[string]bool, len(archive.File))
	for _, f := range archive.File {
		name := strings.TrimSuffix(f.Name, "/")
		switch kind := f.Mode().Type(); {
		case strings.Contains(name, `\`) || !filepath.IsLocal(name) || path.Clean(name) != name:
			return fmt.Errorf("%q is not a path inside the archive", f.Name)
		case names[name]:
			return fmt.Errorf("%q is in the archive twice", f.Name)
		case kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink:
			return fmt.Errorf("%q is not a file, directory or link", f.Name)
		case kind == 0 && isExecutable(name):
			found = append(found, f.Name)
		}
		names[name] = true
	}
	switch len(found) {
	case 0:
		return errors.New("the archive contains no browser: there is no file named " + strings.Join(executables, ", ") + ", at most two directories deep")
	case 1:
		return nil
	default:
		return fmt.Errorf("the archive contains more than one browser: %s", strings.Join(found, ", "))
	}
}

func isExecutable(name string) bool {
	base := strings.TrimSuffix(path.Base(name), ".exe")
	return strings.Count(name, "/") <= maxDepth && slices.Contains(executables, base)
}
