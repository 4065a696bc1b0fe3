package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// process is a process of this machine, from /proc.
type process struct {
	pid, parent int
	name        string
	state       string
	ticks       int // processor time used
	began       string
	faults      int // minor and major page faults
}

// processes returns all processes of this machine.
func processes() (all []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		begin, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')') // the name may contain any character
		if err != nil || begin < 0 || end < begin {
			continue // the process has ended
		}
		fields := strings.Fields(string(text[end+1:]))
		if len(fields) < 20 {
			continue
		}
		number := func(i int) int { n, _ := strconv.Atoi(fields[i]); return n }
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		all = append(all, process{pid, number(1), string(text[begin+1 : end]), fields[0], number(11) + number(12), fields[19], number(7) + number(9)})
	}
	return all
}

// descendants returns the children of a process and their descendants.
func descendants(pid int) (found []process) {
	all := processes()
	parents := []int{pid}
	for len(parents) > 0 {
		var next []int
		for _, p := range all {
			if slices.Contains(parents, p.parent) {
				found, next = append(found, p), append(next, p.pid)
			}
		}
		parents = next
	}
	return found
}

// alive reports whether the process still runs.
func (p process) alive(among []process) bool {
	return slices.ContainsFunc(among, func(q process) bool { return q.pid == p.pid && q.began == p.began && q.state != "Z" && q.state != "X" })
}

// awaitIdle waits, up to some seconds, until the processes of this program are idle.
// Otherwise a refill of the pool or the end of a browser would slow down the next
// measurement.
func awaitIdle(ctx context.Context) error {
	const quiet, step = 4, 50 * time.Millisecond // a tick is 10 ms
	last, calm := -1, 0
	for end := time.Now().Add(6 * time.Second); calm < quiet && time.Now().Before(end); {
		used := 0
		for _, p := range descendants(os.Getpid()) {
			used += p.ticks
		}
		if calm++; used < last || used > last+1 {
			calm = 0
		}
		last = used
		if err := pause(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// memory returns the memory of the worker's own processes in millions of bytes, as
// proportional set size (PSS): shared memory is divided among its users. Browsers
// are not included.
func (w *worker) memory() (megabytes float64, err error) {
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", w.PID()))
	if err != nil {
		return 0, err
	}
	for _, p := range append(descendants(w.PID()), process{pid: w.PID()}) {
		if program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid)); err != nil || program != own {
			continue
		}
		kilobytes, err := pss(p.pid)
		if err != nil {
			return 0, err
		}
		megabytes += kilobytes * 1024 / 1e6
	}
	return megabytes, nil
}

// pss returns the proportional set size of a process in KiB, or 0 if the process has
// ended.
func pss(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes float64
		if _, err := fmt.Sscanf(line, "Pss: %f kB", &kilobytes); err == nil {
			return kilobytes, nil
		}
	}
	return 0, fmt.Errorf("/proc/%d/smaps_rollup has no Pss", pid)
}
