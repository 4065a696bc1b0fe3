package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHierarchies_FindsWorkerGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		own, mounts, unified string
		first                map[string]string
	}{
		"unified": {
			own:     "0::/system.slice/svc-worker.service\n",
			mounts:  "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
			unified: "/sys/fs/cgroup/system.slice/svc-worker.service",
		},
		"a container with a cgroup namespace": {
			own:     "0::/\n",
			mounts:  "1 2 0:26 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
			unified: "/sys/fs/cgroup",
		},
		"a container without a cgroup namespace": {
			own:    "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:pids:/docker/abc/below\n",
			mounts: "31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 30 0:28 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
			first:  map[string]string{"memory": "/sys/fs/cgroup/memory", "pids": "/sys/fs/cgroup/pids/below"},
		},
		"both": {
			own:     "4:memory:/a\n2:pids:/\n0::/\n",
			mounts:  "31 30 0:27 / /m rw shared:5 - cgroup cgroup rw,memory\n32 30 0:28 / /p rw - cgroup cgroup rw,pids\n33 30 0:29 / /u rw - cgroup2 cgroup2 rw\n",
			unified: "/u", first: map[string]string{"memory": "/m/a", "pids": "/p"},
		},
		"none":                   {own: "", mounts: "1 2 0:26 / / rw - ext4 /dev/vda rw\n"},
		"mounted from elsewhere": {own: "2:pids:/here\n", mounts: "32 30 0:28 /there /p rw - cgroup cgroup rw,pids\n", first: map[string]string{"pids": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			h := parseHierarchies(tc.own, tc.mounts)
			if tc.first == nil {
				tc.first = map[string]string{}
			}
			if h.unified != tc.unified || !cmp.Equal(h.v1, tc.first) {
				t.Errorf("found %+v, want %s and %v", h, tc.unified, tc.first)
			}
		})
	}
}

// fakeGroup is a directory with the files of a control group.
func fakeGroup(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEnable_RefusesSharedGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no controller":    {map[string]string{"cgroup.controllers": "cpu pids"}, "does not have the controller memory"},
		"other processes":  {map[string]string{"cgroup.controllers": "memory", "cgroup.procs": "1\n" + "2\n"}, "other processes"},
		"enabled already":  {map[string]string{"cgroup.controllers": "memory", "cgroup.subtree_control": "memory", "cgroup.procs": "1\n2\n"}, ""},
		"the worker moved": {map[string]string{"cgroup.controllers": "memory", "cgroup.procs": "", "cgroup.subtree_control": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := hierarchies{unified: fakeGroup(t, tc.files)}
			err := h.enable(memoryController)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if entries, _ := os.ReadDir(h.unified); tc.want != "" && len(entries) != len(tc.files) {
				t.Errorf("the group was changed: %v", entries)
			}
		})
	}
}
