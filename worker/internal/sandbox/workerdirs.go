package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// systemProgramDirs hold everybody's programs, and nothing that is a worker's own.
var systemProgramDirs = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"}

// findWorkerDirs are where files of the worker's are: the given directory, the one that
// it runs in, where its settings may be, and that of its program.
func findWorkerDirs(given string) (dirs []string) {
	if given != "" {
		dirs = append(dirs, resolvePath(given))
	}
	if at, err := os.Getwd(); err == nil {
		dirs = append(dirs, resolvePath(at))
	}
	if program, err := os.Executable(); err == nil {
		if dir := resolvePath(filepath.Dir(program)); !slices.Contains(systemProgramDirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// workerDirBelow returns one of the worker's own directories that is dir or lies below
// it; "" for none.
func (i *Manager) workerDirBelow(dir string) string {
	dir = resolvePath(dir)
	at := slices.IndexFunc(i.workerDirs, func(own string) bool { return isWithin(own, dir) })
	if at < 0 {
		return ""
	}
	return i.workerDirs[at]
}

// hostPaths is an error when every room shows files of the worker's.
func (i *Manager) checkShownFiles() error {
	for _, path := range slices.Concat(systemDirs, cacheDirs, configFiles) {
		if own := i.workerDirBelow(path); own != "" {
			return fmt.Errorf("browsers see the worker's own files in %s, since they need %s: keep them elsewhere", own, path)
		}
	}
	return nil
}

// resolvePath is a path without links, as far as it exists.
func resolvePath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// isWithin reports whether path is dir or lies below it.
func isWithin(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
