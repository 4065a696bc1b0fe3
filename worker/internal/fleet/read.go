package fleet

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// readFields reads a file of one fact a line, its name first: "MemTotal: 8 kB",
// "oom_kill 0". What follows the name is kept as it is, one blank between words.
func readFields(root fs.FS, file string) (map[string]string, error) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return nil, err
	}
	facts := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 {
			facts[strings.TrimSuffix(words[0], ":")] = strings.Join(words[1:], " ")
		}
	}
	return facts, nil
}

// number is the first word of a fact; 0 when it is none.
func number(fact string) uint64 {
	word, _, _ := strings.Cut(fact, " ")
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readNumber reads a file of one number. It is not ok for a file that is not
// there, and for what stands for no limit: max, -1.
func readNumber(root fs.FS, file string) (n uint64, ok bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

func readLoad1(root fs.FS) (float32, error) {
	text, err := fs.ReadFile(root, "proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 32)
	if err != nil {
		return 0, fmt.Errorf("proc/loadavg: %w", err)
	}
	return float32(load), nil
}

// readPressure reads what the kernel knows of waiting for a resource (cpu or
// memory): the share of the last ten seconds in which something had to wait, in
// percent. It is that of the own control group where that is told, else the
// machine's; nil when the kernel does not tell.
func readPressure(root fs.FS, resource string) *float64 {
	var files []string
	if own := cgroupDirs(root, unified); len(own) > 0 {
		files = append(files, own[0]+"/"+resource+".pressure")
	}
	for _, file := range append(files, "proc/pressure/"+resource) {
		facts, err := readFields(root, file)
		if err != nil {
			continue
		}
		word, _, _ := strings.Cut(strings.TrimPrefix(facts["some"], "avg10="), " ")
		if share, err := strconv.ParseFloat(word, 64); err == nil {
			return &share
		}
	}
	return nil
}
