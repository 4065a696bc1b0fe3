package fleet

import (
	"maps"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inDir puts files into a directory.
func inDir(dir string, files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		out[dir+"/"+name] = text
	}
	return out
}

func mergeFiles(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, each := range all {
		maps.Copy(out, each)
	}
	return out
}

func memoryV2(limit, current, inactive string) map[string]string {
	return map[string]string{"memory.max": limit + "\n", "memory.current": current + "\n", "memory.stat": "anon 5\ninactive_file " + inactive + "\nactive_file 9\n"}
}

func memoryV1(limit, inactive string) map[string]string {
	return map[string]string{"memory.limit_in_bytes": limit + "\n", "memory.usage_in_bytes": "700\n", "memory.stat": "inactive_file 1\ntotal_inactive_file " + inactive + "\n"}
}

func TestReadMemory_UsesFullestLimit(t *testing.T) {
	const none = "9223372036854771712" // no limit, in version 1
	whole := memory{used: 2000000 << 10, limit: total}
	v2 := func(group string, files ...map[string]string) map[string]string {
		return mergeFiles(append(files, map[string]string{"proc/self/cgroup": "0::" + group + "\n", "proc/self/mountinfo": mountsV2})...)
	}
	v1 := func(mounts, group string, files map[string]string) map[string]string {
		return mergeFiles(files, map[string]string{"proc/self/cgroup": "4:memory:" + group + "\n3:cpu,cpuacct:" + group + "\n0::/\n", "proc/self/mountinfo": mounts})
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  memory
	}{
		"no control groups":            {nil, whole},
		"v2":                           {v2("/", inDir("sys/fs/cgroup", memoryV2("1000", "700", "200"))), memory{500, 1000}},
		"v2 max":                       {v2("/a", inDir("sys/fs/cgroup/a", memoryV2("max", "700", "200"))), whole},
		"v2 root has no files":         {v2("/"), whole},
		"v2 more than the machine has": {v2("/", inDir("sys/fs/cgroup", memoryV2("99999999999999", "700", "200"))), whole},
		"v2 nested, outer is fuller":   {v2("/a/b", inDir("sys/fs/cgroup/a", memoryV2("1000", "900", "0")), inDir("sys/fs/cgroup/a/b", memoryV2("800", "100", "0"))), memory{900, 1000}},
		"v2 nested, inner is fuller":   {v2("/a/b", inDir("sys/fs/cgroup/a", memoryV2("1000", "500", "0")), inDir("sys/fs/cgroup/a/b", memoryV2("400", "390", "0"))), memory{390, 400}},
		"v2 nested, inner is max":      {v2("/a/b", inDir("sys/fs/cgroup/a", memoryV2("1000", "500", "0")), inDir("sys/fs/cgroup/a/b", memoryV2("max", "390", "0"))), memory{500, 1000}},
		"v2 outside the mounted part":  {v2("/../x", inDir("sys/fs/cgroup", memoryV2("1000", "100", "0"))), memory{100, 1000}},
		"v2 more droppable than used":  {v2("/", inDir("sys/fs/cgroup", memoryV2("1000", "100", "200"))), memory{0, 1000}},
		"v1":                           {v1(mountsV1, "/a", inDir("sys/fs/cgroup/memory/a", memoryV1("1000", "200"))), memory{500, 1000}},
		"v1 no limit":                  {v1(mountsV1, "/a", inDir("sys/fs/cgroup/memory/a", memoryV1(none, "200"))), whole},
		"v1 container":                 {v1(mountsContainer, "/docker/abc", inDir("sys/fs/cgroup/memory", memoryV1("1000", "200"))), memory{500, 1000}},
		"v1 container, nested":         {v1(mountsContainer, "/docker/abc/d", inDir("sys/fs/cgroup/memory/d", memoryV1("1000", "200"))), memory{500, 1000}},
		"v1 like-named neighbour":      {v1(mountsContainer, "/docker/abcd", mergeFiles(inDir("sys/fs/cgroup/memory", memoryV1("1000", "200")), inDir("sys/fs/cgroup/memory/d", memoryV1("701", "0")))), memory{500, 1000}},
		"hybrid": {v1(mountsHybrid, "/x", mergeFiles(inDir("sys/fs/cgroup/memory", memoryV1(none, "1")), inDir("sys/fs/cgroup/memory/x", memoryV1("1000", "200")))),
			memory{500, 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readMemory(machine(c.files))
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	for name, root := range map[string]fstest.MapFS{
		"no files": {}, "no total": machine(map[string]string{"proc/meminfo": "MemFree: 1 kB\n"}),
		"a limit alone": machine(v2("/", map[string]string{"sys/fs/cgroup/memory.max": "1000\n"})),
	} {
		if got, err := readMemory(root); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestMemoryNearlyFull_IgnoresCachesAndCountsSwap(t *testing.T) {
	group := func(memory, meminfo string, more map[string]string) map[string]string {
		return mergeFiles(inDir("sys/fs/cgroup", more), map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountsV2, "proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "100000\n", "sys/fs/cgroup/memory.current": memory + "\n",
		})
	}
	stat := func(text string) map[string]string { return map[string]string{"memory.stat": text} }
	const swap = meminfo + "SwapFree: 100 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"no control groups": {nil, false},
		"no limit":          {map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountsV2, "sys/fs/cgroup/memory.max": "max\n"}, false},
		"below":             {group("94900", meminfo, stat("anon 94900\n")), false},
		"nearly full":       {group("95000", meminfo, stat("anon 95000\n")), true},
		"caches":            {group("100000", meminfo, stat("anon 94000\ninactive_file 2000\nactive_file 2000\nslab_reclaimable 2000\n")), false},
		"free swap":         {group("100000", swap, stat("anon 100000\n")), false},
		"no swap allowed":   {group("100000", swap, mergeFiles(stat("anon 100000\n"), map[string]string{"memory.swap.max": "0\n", "memory.swap.current": "0\n"})), true},
		"swap is used":      {group("100000", swap, mergeFiles(stat("anon 100000\n"), map[string]string{"memory.swap.max": "50000\n", "memory.swap.current": "50000\n"})), true},
		"version 1": {map[string]string{
			"proc/self/cgroup": "4:memory:/a\n", "proc/self/mountinfo": mountsV1, "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "990\n", "sys/fs/cgroup/memory/a/memory.stat": "active_file 900\ntotal_active_file 10\n",
		}, true},
	} {
		if got := memoryNearlyFull(machine(c.files)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestReadCPU_RelativeToUsableCPUs(t *testing.T) {
	groupsV2 := map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": mountsV2}
	groupsV1 := map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/a\n", "proc/self/mountinfo": mountsV1}
	hybrid := map[string]string{"proc/self/cgroup": "2:cpuacct:/a\n1:cpu:/a\n0::/\n", "proc/self/mountinfo": mountsHybrid}
	for name, c := range map[string]struct {
		files, later map[string]string // later: two seconds later
		cpus         float64
		want         float64
	}{
		"all": {nil, map[string]string{"proc/stat": "cpu0 150 0 50 400 0 0 0 0 50 0\ncpu1 250 0 50 350 0 0 0 0 0 0\n"}, 2, 100 * 100.0 / 250},
		"some of all": {map[string]string{"proc/self/status": "Cpus_allowed_list:\t1,3-4\n"},
			map[string]string{"proc/stat": "cpu0 900 0 50 400 0 0 0 0 0 0\ncpu1 210 0 50 340 0 0 0 0 0 0\n"}, 3, 10},
		"waiting is not counted as used, stolen time is": {nil, map[string]string{"proc/stat": "cpu0 100 0 50 350 60 0 0 40 0 0\ncpu1 200 0 50 250 0 0 0 0 0 0\n"}, 2, 40},
		"v2": {mergeFiles(groupsV2, map[string]string{"sys/fs/cgroup/a/cpu.max": "150000 100000\n", "sys/fs/cgroup/a/cpu.stat": "usage_usec 5000000\nuser_usec 1\n"}),
			map[string]string{"sys/fs/cgroup/a/cpu.stat": "usage_usec 6500000\nuser_usec 1\n"}, 1.5, 50},
		"v2 nested": {mergeFiles(groupsV2, map[string]string{"sys/fs/cgroup/a/cpu.max": "150000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "50000 100000\n", "sys/fs/cgroup/a/b/cpu.stat": "usage_usec 1\n"}),
			map[string]string{"sys/fs/cgroup/a/b/cpu.stat": "usage_usec 250001\n"}, 0.5, 25},
		"v2 max": {mergeFiles(groupsV2, map[string]string{"sys/fs/cgroup/a/cpu.max": "max 100000\n"}),
			map[string]string{"proc/stat": "cpu0 200 0 50 350 0 0 0 0 0 0\ncpu1 200 0 50 350 0 0 0 0 0 0\n"}, 2, 50},
		"v2 more than the machine has": {mergeFiles(groupsV2, map[string]string{"sys/fs/cgroup/a/cpu.max": "900000 100000\n"}),
			map[string]string{"proc/stat": "cpu0 200 0 50 350 0 0 0 0 0 0\ncpu1 200 0 50 350 0 0 0 0 0 0\n"}, 2, 50},
		"v1": {mergeFiles(groupsV1, map[string]string{"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "100000\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n", "sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage": "1000000000\n"}),
			map[string]string{"sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage": "2500000000\n"}, 1, 75},
		"v1 in two trees": {mergeFiles(hybrid, map[string]string{"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "100000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n", "sys/fs/cgroup/cpuacct/a/cpuacct.usage": "0\n"}),
			map[string]string{"sys/fs/cgroup/cpuacct/a/cpuacct.usage": "500000000\n"}, 1, 25},
		"v1 no quota": {mergeFiles(groupsV1, map[string]string{"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}),
			map[string]string{"proc/stat": "cpu0 200 0 50 350 0 0 0 0 0 0\ncpu1 200 0 50 350 0 0 0 0 0 0\n"}, 2, 50},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			before, err := readCPU(machine(c.files), now)
			if err != nil {
				t.Fatal(err)
			}
			after, err := readCPU(machine(mergeFiles(c.files, c.later)), now.Add(2*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := after.since(before); !ok || got < c.want-0.01 || got > c.want+0.01 {
				t.Errorf("%v%%, %v; want %v%%", got, ok, c.want)
			}
			if cpus := usableCPUs(machine(c.files)); cpus != c.cpus {
				t.Errorf("%v processors, want %v", cpus, c.cpus)
			}
		})
	}
	other := cpuReading{source: "a", used: 1, were: 1}
	if _, ok := (cpuReading{source: "b", used: 2, were: 2}).since(other); ok {
		t.Error("readings of different sources were compared")
	}
	if _, err := readCPU(fstest.MapFS{}, time.Now()); err == nil {
		t.Error("got no error without the file")
	}
}

func TestReadPressure_OwnCgroupOrMachine(t *testing.T) {
	text := func(avg string) string {
		return "some avg10=" + avg + " avg60=4.10 avg300=6.43 total=34\nfull avg10=9.99 avg60=0 avg300=0 total=0\n"
	}
	own := map[string]string{"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": mountsV2, "sys/fs/cgroup/a/cpu.pressure": text("3.50")}
	whole := map[string]string{"proc/pressure/cpu": text("0.21")}
	for name, c := range map[string]struct {
		files map[string]string
		want  *float64
	}{
		"own": {mergeFiles(own, whole), new(3.5)}, "machine": {whole, new(0.21)}, "neither": {nil, nil},
		"unknown format": {map[string]string{"proc/pressure/cpu": "some\n"}, nil},
	} {
		if diff := cmp.Diff(c.want, readPressure(machine(c.files), "cpu")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestReadOOMKills_UsesMostSpecificCounter(t *testing.T) {
	v2 := map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": mountsV2, "sys/fs/cgroup/a/memory.events": "oom_kill 99\n"}
	v1 := map[string]string{"proc/self/cgroup": "4:memory:/a\n", "proc/self/mountinfo": mountsV1, "sys/fs/cgroup/memory/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"}
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"machine": {nil, 7}, "v2": {mergeFiles(v2, map[string]string{"sys/fs/cgroup/a/b/memory.events": "low 0\noom 5\noom_kill 3\n"}), 3},
		"v2, without a count of the own group": {v2, 7}, "v1": {v1, 2},
	} {
		if got, err := readOOMKills(machine(c.files)); err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, c.want)
		}
	}
	if _, err := readOOMKills(fstest.MapFS{}); err == nil {
		t.Error("got no error without the file")
	}
}

func TestReadFacts(t *testing.T) {
	files := mergeFiles(inDir("sys/fs/cgroup", memoryV2("1000", "1", "0")), map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountsV2})
	got, err := readFacts(machine(files))
	want := Facts{Hostname: "worker-1", OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: 2, MemoryBytes: 1000, Kernel: "6.1.0-18-amd64"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
