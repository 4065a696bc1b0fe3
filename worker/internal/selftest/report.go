package selftest

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/program"
)

// Report is the result of a self-test.
type Report struct {
	Passed      bool    `json:"passed"`
	Seed        uint64  `json:"seed"`
	User        string  `json:"user"`
	Browser     string  `json:"browser"` // the full version
	Windows     string  `json:"windows"` // whether headful mode was tested, or why not
	Concurrency int     `json:"atOnce"`
	Processes   int     `json:"mostProcesses"`
	Seconds     float64 `json:"seconds"`
	// Phase is the duration of a part of a session's life, in milliseconds.
	Phases  []Phase  `json:"phases"`
	Done    []Tally  `json:"done"`
	Skipped []string `json:"missed"` // scenarios that never ran

	Isolation []workerapi.IsolationPiece `json:"isolation"`
	WarmPool  workerapi.FleetWarmPool    `json:"warmPool"`

	MissingScripts *[]workerapi.WritingScript `json:"missingScripts,omitempty"` // without a font; nil: unknown

	Worker WorkerUsage `json:"worker"`
	// Check is one checked condition; it holds if it has no problems.
	Checks []Check `json:"checks"`
	Log    string  `json:"log,omitempty"` // path of the worker's log, if a check failed
}

// Phase is the duration of a part of a session's life, in milliseconds.
type Phase struct {
	Name  string  `json:"name"`
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
}

// Tally is the number of times that an action was performed.
type Tally struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// WorkerUsage contains the resources of the idle worker after the first browsers and
// at the end. Memory is in bytes.
type WorkerUsage struct {
	DescriptorsBefore int   `json:"descriptorsBefore"`
	DescriptorsAfter  int   `json:"descriptorsAfter"`
	ThreadsBefore     int64 `json:"threadsBefore"`
	ThreadsAfter      int64 `json:"threadsAfter"`
	MemoryBefore      int64 `json:"memoryBefore"`
	MemoryAfter       int64 `json:"memoryAfter"`
}

// Check is one checked condition; it holds if it has no problems.
type Check struct {
	Name     string   `json:"name"`
	Problems []string `json:"problems"`
}

func (r *Report) check(name string, problems ...string) {
	r.Checks = append(r.Checks, Check{Name: name, Problems: append([]string{}, problems...)})
	r.Passed = r.OK()
}

// OK reports whether all checks hold.
func (r *Report) OK() bool {
	return len(r.Checks) > 0 && !slices.ContainsFunc(r.Checks, func(c Check) bool { return len(c.Problems) > 0 })
}

// tallies returns the count of each action, by name.
func (b *sessionLog) tallies() []Tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []Tally
	for _, name := range slices.Sorted(maps.Keys(b.done)) {
		found = append(found, Tally{name, b.done[name]})
	}
	return found
}

// Write writes the report as text.
func (r *Report) Write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Chromium %s, %s, as %s; %d at once for %.0f s; seed %d\n", r.Browser, r.Windows, r.User, r.Concurrency, r.Seconds, r.Seed)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(w, "\ncount\tp50 ms\tp95 ms\t  \n")
	for _, p := range r.Phases {
		_, _ = fmt.Fprintf(w, "%d\t%.1f\t%.1f\t  %s\n", p.Count, p.P50, p.P95, p.Name)
	}
	_ = w.Flush() // a strings.Builder does not fail
	b.WriteString("\nDone:\n")
	for _, t := range r.Done {
		fmt.Fprintf(&b, "%6d  %s\n", t.Count, t.Name)
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(&b, "Skipped, because of time or missing requirements: %s\n", strings.Join(r.Skipped, "; "))
	}
	r.writeMachine(&b)
	b.WriteString("\n")
	for _, c := range r.Checks {
		verdict := "ok  "
		if len(c.Problems) > 0 {
			verdict = "FAIL"
		}
		fmt.Fprintf(&b, "%s  %s\n", verdict, c.Name)
		for _, problem := range c.Problems {
			fmt.Fprintf(&b, "        %s\n", strings.ReplaceAll(problem, "\n", "\n        "))
		}
	}
	if r.Log != "" {
		fmt.Fprintf(&b, "\nThe worker's log is in %s.\n", r.Log)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeMachine writes the isolation and the resources of the worker.
func (r *Report) writeMachine(b *strings.Builder) {
	b.WriteString("\nIsolation of browsers:\n")
	if len(r.Isolation) == 0 {
		b.WriteString("  not reported by the worker\n")
	}
	for _, piece := range r.Isolation {
		state := "on"
		if !piece.Enabled {
			state = "OFF: " + cmp.Or(value(piece.Reason), "no reason reported")
		}
		fmt.Fprintf(b, "  %-17s %s\n", piece.Name, state)
	}
	switch missing := r.MissingScripts; {
	case missing == nil:
		b.WriteString("Fonts: unknown, fc-list is not installed\n")
	case len(*missing) > 0:
		fmt.Fprintf(b, "Fonts: none for %v. Pages show empty boxes: install fonts-noto-core, fonts-noto-cjk and fonts-noto-color-emoji\n", *missing)
	default:
		b.WriteString("Fonts: for all checked scripts\n")
	}
	fmt.Fprintf(b, "Warm pool: %d to %d browsers; %d launches were warm", r.WarmPool.Size, r.WarmPool.MaxSize, r.WarmPool.WarmLaunches)
	for _, c := range r.WarmPool.ColdLaunches {
		fmt.Fprintf(b, ", %d cold (%s)", c.Count, c.Reason)
	}
	w := r.Worker
	fmt.Fprintf(b, "\nIdle worker, after the first browsers and at the end: %d and %d descriptors, %d and %d threads, %s and %s\n",
		w.DescriptorsBefore, w.DescriptorsAfter, w.ThreadsBefore, w.ThreadsAfter, program.Bytes(w.MemoryBefore), program.Bytes(w.MemoryAfter))
}
