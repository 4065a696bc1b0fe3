package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Remove removes an installed version: a full one, or the only one of a major
// version. It returns the full version. If a browser of it is running on this
// machine, it returns ErrInUse; browsers in other containers, or hidden from
// this user, cannot be detected and lose their files.
func (i *Installer) Remove(ctx context.Context, version string) (removed string, err error) {
	wanted, err := parseVersion(version)
	if err != nil {
		return "", err
	}
	unlock, err := i.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if removed, err = i.findInstalled(wanted); err != nil {
		return "", err
	}
	from, to := i.versionDir(removed), i.workPath("removed", removed)
	if from, err = filepath.EvalSymlinks(from); err != nil {
		return "", err
	}
	if err := i.sweep(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	if isRunning(from) {
		return "", fmt.Errorf("%s: %w", removed, ErrInUse)
	}
	if err := os.Rename(from, to); err != nil {
		return "", fmt.Errorf("remove %s: %w", removed, err)
	}
	// A browser may have started before the rename; none can start after it.
	if isRunning(from) || isRunning(to) {
		return "", errors.Join(fmt.Errorf("%s: %w", removed, ErrInUse), os.Rename(to, from))
	}
	return removed, os.RemoveAll(to)
}

// findInstalled finds the one installed version that matches.
func (i *Installer) findInstalled(wanted versionRequest) (string, error) {
	installed, err := i.Installed()
	if err != nil {
		return "", err
	}
	var fits []string
	for _, version := range installed {
		if version == wanted.full || wanted.full == "" && strings.HasPrefix(version, wanted.String()+".") {
			fits = append(fits, version)
		}
	}
	switch len(fits) {
	case 0:
		return "", fmt.Errorf("%s is not installed in %s", wanted, i.Dir)
	case 1:
		return fits[0], nil
	}
	return "", fmt.Errorf("several builds of %s are installed, name one: %s", wanted, strings.Join(fits, ", "))
}

// isRunning reports whether a process on this machine was started from dir, by
// its executable or, if that is hidden, by its command line.
func isRunning(dir string) bool {
	prefix := []byte(dir + string(filepath.Separator))
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if program, err := os.Readlink(process + "/exe"); err == nil {
			if strings.HasPrefix(program, string(prefix)) {
				return true
			}
			continue
		}
		if command, err := os.ReadFile(process + "/cmdline"); err == nil && bytes.HasPrefix(command, prefix) {
			return true
		}
	}
	return false
}
