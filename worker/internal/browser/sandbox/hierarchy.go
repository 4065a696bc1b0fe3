package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The controllers that limit the resources of a launch.
const (
	memoryController = "memory"
	pidsController   = "pids"
)

// ownGroup returns the directory of the worker's control group of version 2.
func ownGroup() (string, error) {
	own, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	if dir := parseOwnGroup(string(own), string(mounts)); dir != "" {
		return dir, nil
	}
	return "", errors.New("no control groups of version 2 are mounted")
}

// parseOwnGroup finds the worker's group in the contents of /proc/self/cgroup and
// /proc/self/mountinfo; "" if there is none.
func parseOwnGroup(own, mounts string) (dir string) {
	path := ""
	for line := range strings.Lines(own) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			path = rest
		}
	}
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-")
		if path == "" || dash < 5 || len(fields) < dash+2 || fields[dash+1] != "cgroup2" {
			continue
		}
		root, point := fields[3], fields[4]
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")); ok {
			dir = filepath.Join(point, below)
		}
	}
	return dir
}

// enableController enables a controller for the children of the worker's group. Except
// for the root group, a group with controllers enabled for children must not
// contain processes. The worker then moves to a leaf group, if its group is
// delegated and has no other processes.
func enableController(own, controller string) error {
	if !slices.Contains(readFields(filepath.Join(own, "cgroup.controllers")), controller) {
		return fmt.Errorf("the worker's control group does not have the controller %s", controller)
	}
	if slices.Contains(readFields(filepath.Join(own, "cgroup.subtree_control")), controller) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(own, "cgroup.type")); !errors.Is(err, os.ErrNotExist) { // not the root group
		if err := moveToLeaf(own); err != nil {
			return err
		}
	}
	return writeFile(own, "cgroup.subtree_control", "+"+controller)
}

// moveToLeaf moves the worker into a leaf of its group.
func moveToLeaf(own string) error {
	if !delegated(own) {
		return errors.New("the service manager has not delegated the worker's control group: set Delegate=yes")
	}
	self := strconv.Itoa(os.Getpid())
	present := readFields(filepath.Join(own, "cgroup.procs"))
	if len(present) == 0 {
		return nil // already moved
	}
	if !slices.Equal(present, []string{self}) {
		return errors.New("the worker shares its control group with other processes")
	}
	leaf := filepath.Join(own, "svc-worker")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return writeFile(leaf, "cgroup.procs", self)
}

// delegated reports whether the worker may manage its group: systemd has set the
// delegate attribute, or systemd is not running.
func delegated(own string) bool {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return true
	}
	mark := make([]byte, 1)
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(own, name, mark); err == nil && n == 1 && mark[0] == '1' {
			return true
		}
	}
	return false
}

func readFields(path string) []string {
	raw, _ := os.ReadFile(path)
	return strings.Fields(string(raw))
}

// readCounter reads the value of a "name value" line in a file.
func readCounter(path, name string) int {
	raw, _ := os.ReadFile(path)
	for line := range bytes.Lines(raw) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			n, _ := strconv.Atoi(string(bytes.TrimSpace(rest)))
			return n
		}
	}
	return 0
}

func writeFile(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}
