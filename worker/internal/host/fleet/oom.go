package fleet

import (
	"io/fs"
	"os"
)

// OutOfMemoryKills returns how many processes the kernel has killed so far
// because of low memory, as far as they concern this worker: in its own control group
// and those below it (version 2), in its own group alone (version 1), else on
// the whole machine, which in a container is the host.
//
// The count is raised before the process dies, so that a count that has grown
// over a browser's life, read after its end, and an end by SIGKILL make an end
// because of low memory likely. It is not proof: the count does not say who was
// killed, and a tab of this browser, or a browser next to it, may have been.
// A count that has not grown is proof of the contrary, unless browsers run in
// groups outside of the worker's, or memory is guarded by a program.
func OutOfMemoryKills() (uint64, error) { return readOOMKills(os.DirFS("/")) }

func readOOMKills(root fs.FS) (uint64, error) {
	if own := cgroupDirs(root, unified); len(own) > 0 {
		if n, ok := readOOMKillCount(root, own[0]+"/memory.events"); ok {
			return n, nil
		}
	}
	for _, dir := range cgroupDirs(root, "memory") {
		if n, ok := readOOMKillCount(root, dir+"/memory.oom_control"); ok {
			return n, nil
		}
	}
	facts, err := readFields(root, "proc/vmstat")
	return number(facts["oom_kill"]), err
}

func readOOMKillCount(root fs.FS, file string) (n uint64, ok bool) {
	facts, err := readFields(root, file)
	fact, ok := facts["oom_kill"]
	return number(fact), ok && err == nil
}
