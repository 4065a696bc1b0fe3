package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// systemProgramDirs are shared program directories, which contain no files of
// the worker.
var systemProgramDirs = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"}

// findWorkerDirs returns the directories that contain the worker's files: the
// configured one, the working directory, which may hold its settings, and the
// directory of its program.
func findWorkerDirs(configured string) (dirs []string) {
	if configured != "" {
		dirs = append(dirs, resolvePath(configured))
	}
	if workingDir, err := os.Getwd(); err == nil {
		dirs = append(dirs, resolvePath(workingDir))
	}
	if program, err := os.Executable(); err == nil {
		if dir := resolvePath(filepath.Dir(program)); !slices.Contains(systemProgramDirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// workerDirBelow returns a directory of the worker that is dir or below it; ""
// for none.
func (m *Manager) workerDirBelow(dir string) string {
	dir = resolvePath(dir)
	i := slices.IndexFunc(m.workerDirs, func(own string) bool { return isWithin(own, dir) })
	if i < 0 {
		return ""
	}
	return m.workerDirs[i]
}

// checkShownFiles returns an error if every sandbox shows files of the worker.
func (m *Manager) checkShownFiles() error {
	for _, path := range readablePaths() {
		if own := m.workerDirBelow(path); own != "" {
			return fmt.Errorf("browsers can read the worker's files in %s, because they need %s: move the worker's files elsewhere", own, path)
		}
	}
	return nil
}

// resolvePath resolves symbolic links, as far as the path exists.
func resolvePath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// isWithin reports whether path is dir or below it.
func isWithin(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
