package fleet

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// unified asks groups for version 2, which has one tree for all controllers.
const unified = ""

// cgroupDirs lists the directories, below root, of the control groups that this
// process is in, its own first, then what is around them. They are those of
// version 2 and, unless asked for these alone, of the controller's own tree in
// version 1.
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

// readMount reads a line of mountinfo (proc(5)): the part of a tree of control
// groups that is mounted, and where.
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
// outside of what is mounted, as another name space sees it, is the top.
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
