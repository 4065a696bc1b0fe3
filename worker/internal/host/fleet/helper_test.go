package fleet

import (
	"maps"
	"testing/fstest"
)

const (
	meminfo = "MemTotal:        8000000 kB\nMemFree:         1000000 kB\nMemAvailable:    6000000 kB\nBuffers:           77816 kB\n"
	total   = 8000000 << 10

	mountsV2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountsV1 = "23 1 0:1 / / rw - ext4 /dev/vda rw\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n"
	// A hybrid system: each controller has a separate tree.
	mountsHybrid = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	// A container with version 1: its own group is mounted.
	mountsContainer = "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)

// machine returns a root with the files of every Linux system and these files.
func machine(files map[string]string) fstest.MapFS {
	all := map[string]string{
		"proc/meminfo":              meminfo,
		"proc/loadavg":              "0.52 0.58 0.59 1/234 5678\n",
		"proc/stat":                 "cpu  300 0 100 600 0 0 0 0 0 0\ncpu0 100 0 50 350 0 0 0 0 0 0\ncpu1 200 0 50 250 0 0 0 0 0 0\nintr 12345\n",
		"proc/self/status":          "Name:\tsvc\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n",
		"proc/vmstat":               "nr_free_pages 1\noom_kill 7\n",
		"proc/sys/kernel/hostname":  "worker-1\n",
		"proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
	}
	maps.Copy(all, files)
	root := fstest.MapFS{}
	for name, text := range all {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}
