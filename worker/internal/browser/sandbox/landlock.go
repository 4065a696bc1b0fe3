package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
)

// restrictFiles limits a launch without private files to its own files and the host
// files that a browser needs, and hides the memory of processes outside the launch. The
// worker's files and those of other launches may belong to the same user. Kernels
// without Landlock, before 5.13, do not restrict anything.
func (r *setupRequest) restrictFiles() error {
	rules := []landlock.Rule{
		landlock.RWDirs("/proc").IgnoreIfMissing(), // Chromium's sandbox writes to /proc/self/uid_map
		landlock.RWDirs("/dev").WithIoctlDev(),
		landlock.RODirs("/sys").IgnoreIfMissing(),
		landlock.RODirs(filepath.Dir(r.Program)),
	}
	for _, path := range r.Writable {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			rules = append(rules, landlock.RWFiles(path))
			continue
		}
		rules = append(rules, landlock.RWDirs(path).WithRefer())
	}
	for _, path := range slices.Concat(r.Readable, readablePaths(), nameFiles,
		[]string{"/etc/passwd", "/etc/group", "/etc/localtime"}) {
		switch info, err := os.Stat(path); {
		case err != nil: // does not exist, or the launch's user cannot reach it
		case info.IsDir():
			rules = append(rules, landlock.RODirs(path).IgnoreIfMissing())
		default:
			rules = append(rules, landlock.ROFiles(path).IgnoreIfMissing())
		}
	}
	if err := landlock.V5.BestEffort().RestrictPaths(rules...); err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	return nil
}
