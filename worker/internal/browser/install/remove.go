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
	request, err := parseVersion(version)
	if err != nil {
		return "", err
	}
	unlock, err := i.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if removed, err = i.findInstalled(request); err != nil {
		return "", err
	}
	source, target := i.versionDir(removed), i.workPath("removed", removed)
	if source, err = filepath.EvalSymlinks(source); err != nil {
		return "", err
	}
	if err := i.sweep(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	if isRunning(source) {
		return "", fmt.Errorf("%s: %w", removed, ErrInUse)
	}
	if err := os.Rename(source, target); err != nil {
		return "", fmt.Errorf("remove %s: %w", removed, err)
	}
	// A browser may have started before the rename; none can start after it.
	if isRunning(source) || isRunning(target) {
		return "", errors.Join(fmt.Errorf("%s: %w", removed, ErrInUse), os.Rename(target, source))
	}
	return removed, os.RemoveAll(target)
}

// findInstalled finds the one installed version that matches.
func (i *Installer) findInstalled(request versionRequest) (string, error) {
	installed, err := i.Installed()
	if err != nil {
		return "", err
	}
	var fits []string
	for _, version := range installed {
		if version == request.full || request.full == "" && strings.HasPrefix(version, request.String()+".") {
			fits = append(fits, version)
		}
	}
	switch len(fits) {
	case 0:
		return "", fmt.Errorf("%s is not installed in %s", request, i.Dir)
	case 1:
		return fits[0], nil
	}
	return "", fmt.Errorf("several builds of %s are installed, name one: %s", request, strings.Join(fits, ", "))
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
