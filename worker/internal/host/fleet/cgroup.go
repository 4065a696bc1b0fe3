package fleet

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// unified selects version 2 of control groups, which has one tree for all controllers.
const unified = ""

// cgroupDirs lists the directories, below root, of the control groups of this
// process, its own first, then the parents. These are the groups of version 2 and,
// except for unified, the groups of the controller's tree in version 1.
func cgroupDirs(root fs.FS, controller string) []string {
	memberships, _ := fs.ReadFile(root, "proc/self/cgroup")
	mounts, _ := fs.ReadFile(root, "proc/self/mountinfo")
	var dirs []string
	for line := range strings.Lines(string(memberships)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(parts) < 3 || parts[1] != unified && !slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		for mount := range strings.Lines(string(mounts)) {
			if top, point, ok := readMount(mount, parts[1] == unified, controller); ok {
				dirs = append(dirs, parentDirs(parts[2], top, point)...)
				break
			}
		}
	}
	return dirs
}

// readMount reads a line of mountinfo (proc(5)): the mounted part of a tree of
// control groups, and the mount point.
func readMount(line string, v2 bool, controller string) (top, point string, ok bool) {
	const root, mountPoint = 3, 4
	before, after, _ := strings.Cut(line, " - ")
	fields, system := strings.Fields(before), strings.Fields(after) // system: type, source, options
	if len(fields) <= mountPoint || len(system) < 3 {
		return "", "", false
	}
	if v2 {
		ok = system[0] == "cgroup2"
	} else {
		ok = system[0] == "cgroup" && slices.Contains(strings.Split(system[2], ","), controller)
	}
	return fields[root], fields[mountPoint], ok
}

// parentDirs lists the directories from a group's up to the mount point. A group
// outside the mounted part, as seen from another namespace, counts as the top.
func parentDirs(group, top, point string) []string {
	inside, ok := strings.CutPrefix(group, strings.TrimSuffix(top, "/"))
	if !ok || strings.HasPrefix(inside, "/..") || (inside != "" && inside[0] != '/') {
		inside = ""
	}
	var dirs []string
	for dir := path.Clean("/" + inside); ; dir = path.Dir(dir) {
		dirs = append(dirs, strings.TrimPrefix(path.Join(point, dir), "/"))
		if dir == "/" {
			return dirs
		}
	}
}
