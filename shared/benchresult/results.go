// Package benchresult has the common parts of the benchmarks: interleaved rounds, tables
// with targets, and a file with one section per benchmark.
package benchresult

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"
)

const (
	title   = "# Benchmark results\n\n"
	heading = "## " // the first characters of a section
)

// Report is the result of a benchmark.
type Report struct {
	Title   string   // title of the section
	Command string   // the command that runs it
	On      []string // the environment, in addition to Machine
	Rounds  int      // 0: each figure is measured once
	Rows    Table
	Notes   string // explanations of the table
}

// String returns the section without its title.
func (r Report) String() string {
	conditions := append([]string{Machine()}, r.On...)
	if r.Rounds > 0 {
		conditions = append(conditions, fmt.Sprintf("medians of %d interleaved rounds", r.Rounds))
	}
	return fmt.Sprintf("%s, %s.\n\n%s\n%s", strings.Join(conditions, ", "), time.Now().UTC().Format(time.DateOnly), r.Rows, r.Notes)
}

// Publish prints the report and, unless file is empty, writes it to its section of the
// file.
func (r Report) Publish(file string) error {
	fmt.Print(r)
	if file == "" {
		return nil
	}
	return r.Write(file)
}

// Write writes the report to its section of the file.
func (r Report) Write(file string) error {
	return write(file, r.Title, fmt.Sprintf("Made by `%s`.\n\n%s", r.Command, r))
}

// write writes the text to the file as the section with this name. It replaces the
// existing section or appends a new one, and keeps the other sections.
func write(file, name, text string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the results: %w", err)
	}
	all := sections(string(old))
	section := heading + name + "\n\n" + strings.TrimSpace(text) + "\n"
	placed := false
	for i := range all {
		if strings.HasPrefix(all[i], heading+name+"\n") {
			all[i], placed = section, true
		}
	}
	if !placed {
		all = append(all, section)
	}
	if err := os.WriteFile(file, []byte(title+strings.Join(all, "\n")), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// sections returns the sections of a file in order, without the text before the
// first one.
func sections(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, heading):
			all = append(all, line)
		case len(all) > 0:
			all[len(all)-1] += line
		}
	}
	for i := range all {
		all[i] = strings.TrimSpace(all[i]) + "\n"
	}
	return all
}

// Machine describes the machine: the number and model of the CPU cores and the Go
// version.
func Machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	cpus, _ := os.ReadFile("/proc/cpuinfo") // exists only on Linux
	for line := range strings.Lines(string(cpus)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			parts = append(parts, strings.TrimSpace(model))
			break
		}
	}
	return strings.Join(append(parts, runtime.Version()), ", ")
}
