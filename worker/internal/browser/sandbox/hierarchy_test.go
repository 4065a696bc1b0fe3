package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseOwnGroup_FindsWorkerGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		own, mounts, want string
	}{
		"unified": {
			"0::/system.slice/svc-worker.service\n", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
			"/sys/fs/cgroup/system.slice/svc-worker.service",
		},
		"a container with a cgroup namespace": {
			"0::/\n", "1 2 0:26 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n", "/sys/fs/cgroup",
		},
		"a container without a cgroup namespace": {
			"0::/docker/abc/below\n", "31 30 0:27 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "/sys/fs/cgroup/below",
		},
		"both versions": {
			"4:memory:/a\n2:pids:/\n0::/\n", "31 30 0:27 / /m rw shared:5 - cgroup cgroup rw,memory\n33 30 0:29 / /u rw - cgroup2 cgroup2 rw\n", "/u",
		},
		"version 1":              {"4:memory:/a\n", "31 30 0:27 / /m rw shared:5 - cgroup cgroup rw,memory\n", ""},
		"none":                   {"", "1 2 0:26 / / rw - ext4 /dev/vda rw\n", ""},
		"mounted from elsewhere": {"0::/here\n", "32 30 0:28 /there /u rw - cgroup2 cgroup2 rw\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseOwnGroup(tc.own, tc.mounts); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
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

func TestEnableController_RefusesSharedGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no controller":    {map[string]string{"cgroup.controllers": "cpu pids"}, "does not have the controller memory"},
		"other processes":  {map[string]string{"cgroup.type": "domain", "cgroup.controllers": "memory", "cgroup.procs": "1\n" + "2\n"}, "other processes"},
		"enabled already":  {map[string]string{"cgroup.type": "domain", "cgroup.controllers": "memory", "cgroup.subtree_control": "memory", "cgroup.procs": "1\n2\n"}, ""},
		"the worker moved": {map[string]string{"cgroup.type": "domain", "cgroup.controllers": "memory", "cgroup.procs": "", "cgroup.subtree_control": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			own := fakeGroup(t, tc.files)
			err := enableController(own, memoryController)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if entries, _ := os.ReadDir(own); tc.want != "" && len(entries) != len(tc.files) {
				t.Errorf("the group was changed: %v", entries)
			}
		})
	}
}
