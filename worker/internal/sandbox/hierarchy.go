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

// hierarchies are the worker's own control groups: in the v2 (unified) hierarchy
// and in the v1 hierarchy of each controller. A path is empty where there is
// none.
type hierarchies struct {
	unified string
	isRoot  bool              // unified is the root group, which may contain processes and groups
	v1      map[string]string // by controller
}

// readHierarchies finds the worker's control groups. All paths are empty when
// /proc cannot be read.
func readHierarchies() hierarchies {
	own, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return parseHierarchies(string(own), string(mounts))
}

// parseHierarchies finds the worker's groups in the contents of
// /proc/self/cgroup and /proc/self/mountinfo.
func parseHierarchies(own, mounts string) hierarchies {
	h := hierarchies{v1: map[string]string{}}
	paths := map[string]string{} // by controller; "" is the unified hierarchy
	for line := range strings.Lines(own) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		for name := range strings.SplitSeq(controllers, ",") {
			paths[name] = path
		}
	}
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-")
		if dash < 5 || len(fields) < dash+4 {
			continue
		}
		root, point, kind, options := fields[3], fields[4], fields[dash+1], strings.Split(fields[dash+3], ",")
		at := func(controller string) string {
			path, ok := paths[controller]
			below, shown := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
			if !ok || !shown {
				return ""
			}
			return filepath.Join(point, below)
		}
		if kind == "cgroup2" {
			h.unified = at("")
		}
		for _, controller := range []string{memoryController, pidsController} {
			if kind == "cgroup" && slices.Contains(options, controller) {
				h.v1[controller] = at(controller)
			}
		}
	}
	_, err := os.Stat(filepath.Join(h.unified, "cgroup.type"))
	h.isRoot = h.unified != "" && errors.Is(err, os.ErrNotExist)
	return h
}

// enable enables a controller for the children of the worker's v2 group. Except
// for the root group, a group with controllers enabled for children must not
// contain processes. The worker then moves to a leaf group, if its group is
// delegated and has no other processes.
func (h hierarchies) enable(controller string) error {
	if !slices.Contains(readFields(filepath.Join(h.unified, "cgroup.controllers")), controller) {
		return fmt.Errorf("the worker's control group does not have the controller %s", controller)
	}
	if slices.Contains(readFields(filepath.Join(h.unified, "cgroup.subtree_control")), controller) {
		return nil
	}
	if !h.isRoot {
		if err := h.moveToLeaf(); err != nil {
			return err
		}
	}
	return writeFile(h.unified, "cgroup.subtree_control", "+"+controller)
}

// moveToLeaf moves the worker into a leaf of its group.
func (h hierarchies) moveToLeaf() error {
	if !h.delegated() {
		return errors.New("the service manager has not delegated the worker's control group: set Delegate=yes")
	}
	self := strconv.Itoa(os.Getpid())
	present := readFields(filepath.Join(h.unified, "cgroup.procs"))
	if len(present) == 0 {
		return nil // already moved
	}
	if !slices.Equal(present, []string{self}) {
		return errors.New("the worker shares its control group with other processes")
	}
	leaf := filepath.Join(h.unified, "svc-worker")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return writeFile(leaf, "cgroup.procs", self)
}

// delegated reports whether the worker may manage its group: systemd has set the
// delegate attribute, or systemd is not running.
func (h hierarchies) delegated() bool {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return true
	}
	mark := make([]byte, 1)
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(h.unified, name, mark); err == nil && n == 1 && mark[0] == '1' {
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
