package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// programDirs hold everybody's programs, and nothing that is a worker's own.
var programDirs = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"}

// ownDirs are where files of the worker's are: the given directory, the one that
// it runs in, where its settings may be, and that of its program.
func ownDirs(given string) (dirs []string) {
	if given != "" {
		dirs = append(dirs, resolved(given))
	}
	if at, err := os.Getwd(); err == nil {
		dirs = append(dirs, resolved(at))
	}
	if program, err := os.Executable(); err == nil {
		if dir := resolved(filepath.Dir(program)); !slices.Contains(programDirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// ownIn returns one of the worker's own directories that is dir or lies below
// it; "" for none.
func (i *Isolation) ownIn(dir string) string {
	dir = resolved(dir)
	at := slices.IndexFunc(i.own, func(own string) bool { return within(own, dir) })
	if at < 0 {
		return ""
	}
	return i.own[at]
}

// shown is an error when every room shows files of the worker's.
func (i *Isolation) shown() error {
	for _, path := range slices.Concat(systemDirs, caches, configFiles) {
		if own := i.ownIn(path); own != "" {
			return fmt.Errorf("browsers see the worker's own files in %s, since they need %s: keep them elsewhere", own, path)
		}
	}
	return nil
}

// resolved is a path without links, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
