package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// memory is used memory and its limit, in bytes.
type memory struct{ used, limit uint64 }

func (m memory) percent() float64 { return percentOf(float64(m.used), float64(m.limit)) }

// percentOf returns part of whole in percent, from 0 to 100.
func percentOf(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(max(100*part/whole, 0), 100)
}

// readMemory returns the memory of the fullest control group that has a limit or,
// without a limit, of the machine. File caches that the kernel can drop at once do
// not count as used.
func readMemory(root fs.FS) (memory, error) {
	info, err := readFields(root, "proc/meminfo")
	if err != nil {
		return memory{}, err
	}
	total, available := number(info["MemTotal"])<<10, number(info["MemAvailable"])<<10
	if total == 0 {
		return memory{}, errors.New("proc/meminfo contains no MemTotal")
	}
	found := memory{used: total - min(available, total), limit: total}
	limited := false
	for _, dir := range cgroupDirs(root, "memory") {
		group, ok, err := readGroupMemory(root, dir, inactiveFile)
		if err != nil {
			return memory{}, err
		}
		if ok && group.limit < total && (!limited || group.percent() > found.percent()) {
			found, limited = group, true
		}
	}
	return found, nil
}

// nearlyFull is the memory that the kernel cannot reclaim, in percent of the limit, from which
// it is about to kill a process.
const nearlyFull = 95

// MemoryNearlyFull reports whether a control group of this process, or one above it, has a
// memory limit that is nearly reached, without caches that the kernel reclaims first. Free
// swap space raises the limit.
func MemoryNearlyFull() bool { return memoryNearlyFull(os.DirFS("/")) }

func memoryNearlyFull(root fs.FS) bool {
	return slices.ContainsFunc(cgroupDirs(root, "memory"), func(dir string) bool {
		m, limited, err := readGroupMemory(root, dir, inactiveFile, "active_file", "slab_reclaimable")
		if err != nil || !limited || m.percent() < nearlyFull {
			return false
		}
		m.limit += freeSwap(root, dir)
		return m.percent() >= nearlyFull
	})
}

// freeSwap returns the swap space that a control group can still use.
func freeSwap(root fs.FS, dir string) uint64 {
	info, _ := readFields(root, "proc/meminfo")
	free := number(info["SwapFree"]) << 10
	if limit, ok := readNumber(root, dir+"/memory.swap.max"); ok {
		used, _ := readNumber(root, dir+"/memory.swap.current")
		free = min(free, limit-min(used, limit))
	}
	return free
}

const inactiveFile = "inactive_file" // file caches that the kernel can drop at once

var memoryFiles = [...]struct{ limit, usage, prefix string }{
	{"/memory.max", "/memory.current", ""},                         // version 2
	{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_"}, // version 1
}

// readGroupMemory returns the memory of a control group, without the caches of
// these names in its memory.stat.
func readGroupMemory(root fs.FS, dir string, caches ...string) (m memory, limited bool, err error) {
	for _, files := range memoryFiles {
		limit, ok := readNumber(root, dir+files.limit)
		if !ok {
			continue
		}
		used, ok := readNumber(root, dir+files.usage)
		if !ok {
			return memory{}, false, fmt.Errorf("%s has a memory limit but no usage", dir)
		}
		stat, err := readFields(root, dir+"/memory.stat")
		if err != nil {
			return memory{}, false, err
		}
		for _, name := range caches {
			used -= min(used, number(stat[files.prefix+name]))
		}
		return memory{used: used, limit: limit}, true, nil
	}
	return memory{}, false, nil
}
