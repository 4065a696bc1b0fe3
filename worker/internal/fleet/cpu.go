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

// cpuReading of processor time so far: what was used, of what there was. Only
// readings of one source can be compared.
type cpuReading struct {
	source     string
	used, were float64
}

// since is the share of the time between two readings that was used, in
// percent.
func (r cpuReading) since(before cpuReading) (percent float64, ok bool) {
	if r.source != before.source || r.were <= before.were {
		return 0, false
	}
	return share(r.used-before.used, r.were-before.were), true
}

// quota is what a control group may use.
type quota struct {
	cpus float64
	used string  // file that tells the time used
	fact string  // its name in that file; empty when the file is a number alone
	unit float64 // of it, in seconds
}

// readCPU reads the time used in the control group with the tightest quota;
// without one, on the processors that this process may run on.
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
		return cpuReading{}, errors.New("proc/stat tells of no processor")
	}
	return r, nil
}

// readTimes sums up a processor's line of proc/stat (proc(5)). Time that a
// hypervisor gave to others could not be used: it counts as used.
func readTimes(times string) (used, were float64) {
	const idle, wait, guest = 3, 4, 8 // columns; guest time is in the first ones already
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

// allowedCPUs lists the processors that this process may run on; none when that
// is not told.
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
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		for id := from; err == nil && err2 == nil && id <= to; id++ {
			cpus = append(cpus, id)
		}
	}
	return cpus
}

// usableCPUs is how many processors this process may use, in parts of one too.
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
		if q.used == "" { // version 1 accounts in a tree of its own, of the same shape
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
	period, known := readNumber(root, dir+"/cpu.cfs_period_us")
	if !ok || !known || period == 0 {
		return quota{}, false
	}
	return quota{cpus: float64(allowed) / float64(period)}, true
}

// read returns the seconds used.
func (q quota) read(root fs.FS) (float64, error) {
	if q.fact == "" {
		n, ok := readNumber(root, q.used)
		if !ok {
			return 0, fmt.Errorf("%s tells no time", q.used)
		}
		return float64(n) * q.unit, nil
	}
	facts, err := readFields(root, q.used)
	return float64(number(facts[q.fact])) * q.unit, err
}
