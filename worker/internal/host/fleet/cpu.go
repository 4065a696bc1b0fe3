package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cpuReading is the processor time that was used and that was available so far. Only
// readings of the same source can be compared.
type cpuReading struct {
	source     string
	used, were float64
}

// since returns the share of the time between two readings that was used, in percent.
func (r cpuReading) since(before cpuReading) (percent float64, ok bool) {
	if r.source != before.source || r.were <= before.were {
		return 0, false
	}
	return percentOf(r.used-before.used, r.were-before.were), true
}

// quota is the processor quota of a control group.
type quota struct {
	cpus float64
	used string  // file with the used time
	fact string  // field of that file; empty if the file is a single number
	unit float64 // unit of the value, in seconds
}

// readCPU reads the used time of the control group with the tightest quota or,
// without a quota, of the processors that this process may use.
func readCPU(root fs.FS, now time.Time) (cpuReading, error) {
	cpus := allowedCPUs(root)
	if q, ok := tightestQuota(root); ok && (len(cpus) == 0 || q.cpus < float64(len(cpus))) {
		used, err := q.read(root)
		seconds := float64(now.UnixMicro()) / 1e6
		return cpuReading{source: fmt.Sprint(q), used: used, were: seconds * q.cpus}, err
	}
	text, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return cpuReading{}, err
	}
	r := cpuReading{source: fmt.Sprint(cpus)}
	for line := range strings.Lines(string(text)) {
		name, times, _ := strings.Cut(line, " ")
		id, err := strconv.Atoi(strings.TrimPrefix(name, "cpu"))
		if !strings.HasPrefix(name, "cpu") || err != nil || (len(cpus) > 0 && !slices.Contains(cpus, id)) {
			continue
		}
		used, were := readTimes(times)
		r.used += used
		r.were += were
	}
	if r.were == 0 {
		return cpuReading{}, errors.New("proc/stat lists no processor")
	}
	return r, nil
}

// readTimes sums up a processor's line of proc/stat (proc(5)). Time that a hypervisor
// gave to other guests counts as used, because it was not available.
func readTimes(times string) (used, were float64) {
	const idle, wait, guest = 3, 4, 8 // columns; guest time is included in the first ones
	for i, word := range strings.Fields(times) {
		if i >= guest {
			break
		}
		n := float64(number(word))
		if were += n; i != idle && i != wait {
			used += n
		}
	}
	return used, were
}

// allowedCPUs lists the processors that this process may use; empty if unknown.
func allowedCPUs(root fs.FS) []int {
	status, err := readFields(root, "proc/self/status")
	if err != nil {
		return nil
	}
	var cpus []int
	for span := range strings.SplitSeq(status["Cpus_allowed_list"], ",") {
		first, last, several := strings.Cut(span, "-")
		if !several {
			last = first
		}
		start, err := strconv.Atoi(first)
		end, err2 := strconv.Atoi(last)
		for id := start; err == nil && err2 == nil && id <= end; id++ {
			cpus = append(cpus, id)
		}
	}
	return cpus
}

// usableCPUs returns how many processors this process may use, possibly a fraction.
func usableCPUs(root fs.FS) float64 {
	cpus := float64(len(allowedCPUs(root)))
	if q, ok := tightestQuota(root); ok && (cpus == 0 || q.cpus < cpus) {
		return q.cpus
	}
	return cpus
}

func tightestQuota(root fs.FS) (tightest quota, found bool) {
	dirs, accounts := cgroupDirs(root, "cpu"), cgroupDirs(root, "cpuacct")
	for i, dir := range dirs {
		q, ok := readQuota(root, dir)
		if !ok {
			continue
		}
		if q.used == "" { // version 1 accounts in a separate tree of the same structure
			if len(accounts) != len(dirs) {
				continue
			}
			q.used, q.unit = accounts[i]+"/cpuacct.usage", 1e-9
		}
		if !found || q.cpus < tightest.cpus {
			tightest, found = q, true
		}
	}
	return tightest, found
}

func readQuota(root fs.FS, dir string) (q quota, limited bool) {
	if text, err := fs.ReadFile(root, dir+"/cpu.max"); err == nil { // version 2: "150000 100000", "max 100000"
		allowed, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		if number(allowed) == 0 || number(period) == 0 {
			return quota{}, false
		}
		cpus := float64(number(allowed)) / float64(number(period))
		return quota{cpus: cpus, used: dir + "/cpu.stat", fact: "usage_usec", unit: 1e-6}, true
	}
	allowed, ok := readNumber(root, dir+"/cpu.cfs_quota_us")
	period, hasPeriod := readNumber(root, dir+"/cpu.cfs_period_us")
	if !ok || !hasPeriod || period == 0 {
		return quota{}, false
	}
	return quota{cpus: float64(allowed) / float64(period)}, true
}

// read returns the seconds used.
func (q quota) read(root fs.FS) (float64, error) {
	if q.fact == "" {
		n, ok := readNumber(root, q.used)
		if !ok {
			return 0, fmt.Errorf("%s contains no time", q.used)
		}
		return float64(n) * q.unit, nil
	}
	facts, err := readFields(root, q.used)
	return float64(number(facts[q.fact])) * q.unit, err
}
