package fleet

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// readFields reads a file of "name: value" or "name value" lines into a map.
// Words of a value are separated by one space.
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

// number parses the first word of a value; 0 if it is invalid.
func number(fact string) uint64 {
	word, _, _ := strings.Cut(fact, " ")
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readNumber reads a file of one number. ok is false if the file is missing or
// states no limit (max, -1).
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

// readPressure returns the pressure stall information for cpu or memory: the
// percentage of the last ten seconds in which a task waited. It prefers that of
// the own control group to the machine's; nil if neither is available.
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
