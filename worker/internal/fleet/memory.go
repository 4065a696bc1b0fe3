package fleet

import (
	"errors"
	"fmt"
	"io/fs"
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
		group, ok, err := readGroupMemory(root, dir)
		if err != nil {
			return memory{}, err
		}
		if ok && group.limit < total && (!limited || group.percent() > found.percent()) {
			found, limited = group, true
		}
	}
	return found, nil
}

var memoryFiles = [...]struct{ limit, usage, droppable string }{
	{"/memory.max", "/memory.current", "inactive_file"},                         // version 2
	{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"}, // version 1
}

func readGroupMemory(root fs.FS, dir string) (m memory, limited bool, err error) {
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
		return memory{used: used - min(used, number(stat[files.droppable])), limit: limit}, true, nil
	}
	return memory{}, false, nil
}
