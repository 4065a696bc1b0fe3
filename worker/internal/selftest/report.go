package selftest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// Report is the result of a self-test.
type Report struct {
	Passed    bool        `json:"passed"`
	User      string      `json:"user"`
	Launches  []Launch    `json:"launches"`
	Skipped   []string    `json:"skipped"` // launches that this machine does not support
	Isolation []Isolation `json:"isolation"`

	MissingScripts *[]string `json:"missingScripts,omitempty"` // without a font; nil: unknown

	Checks []Check `json:"checks"`
}

// Launch is one launch. Durations are in milliseconds; 0 if the launch did not get that far.
type Launch struct {
	Browser  string `json:"browser"` // the full version
	Engine   string `json:"engine"`
	Headless bool   `json:"headless"`
	LaunchMs int64  `json:"launchMs"`
	PageMs   int64  `json:"pageMs"` // until a page was loaded and captured
	EndMs    int64  `json:"endMs"`
}

// String describes the browser.
func (l Launch) String() string {
	mode := "headful"
	if l.Headless {
		mode = "headless"
	}
	return fmt.Sprintf("%s %s, %s", l.Engine, l.Browser, mode)
}

// Isolation is one mechanism that separates launches.
type Isolation struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason,omitempty"` // why it is off
}

// Check is one checked condition; it holds if it has no problems.
type Check struct {
	Name     string   `json:"name"`
	Problems []string `json:"problems"`
}

func (r *Report) check(name string, problems ...string) {
	r.Checks = append(r.Checks, Check{Name: name, Problems: append([]string{}, problems...)})
	r.Passed = r.Failed() == 0
}

// Failed returns the number of checks that do not hold.
func (r *Report) Failed() (count int) {
	for _, c := range r.Checks {
		count += min(len(c.Problems), 1)
	}
	return count
}

func (r *Report) describeIsolation(report sandbox.Report) {
	for _, piece := range report.Pieces {
		r.Isolation = append(r.Isolation, Isolation{piece.Name, piece.On, piece.Reason})
	}
}

// Write writes the report as text.
func (r *Report) Write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Launches as %s:\n", r.User)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(w, "launch ms\tpage ms\tend ms\t  \n")
	for _, l := range r.Launches {
		_, _ = fmt.Fprintf(w, "%d\t%d\t%d\t  %s\n", l.LaunchMs, l.PageMs, l.EndMs, l)
	}
	_ = w.Flush() // a strings.Builder does not fail
	for _, skipped := range r.Skipped {
		fmt.Fprintf(&b, "Skipped: %s\n", skipped)
	}
	b.WriteString("\nIsolation of browsers:\n")
	for _, piece := range r.Isolation {
		state := "on"
		if !piece.Enabled {
			state = "OFF: " + piece.Reason
		}
		fmt.Fprintf(&b, "  %-17s %s\n", piece.Name, state)
	}
	b.WriteString(r.fonts() + "\n\n")
	for _, c := range r.Checks {
		verdict := "ok  "
		if len(c.Problems) > 0 {
			verdict = "FAIL"
		}
		fmt.Fprintf(&b, "%s  %s\n", verdict, c.Name)
		for _, problem := range c.Problems[:min(len(c.Problems), 20)] {
			fmt.Fprintf(&b, "        %s\n", strings.ReplaceAll(problem, "\n", "\n        "))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// fonts describes which scripts pages can show.
func (r *Report) fonts() string {
	switch missing := r.MissingScripts; {
	case missing == nil:
		return "Fonts: unknown, fc-list is not installed"
	case len(*missing) > 0:
		slices.Sort(*missing)
		return fmt.Sprintf("Fonts: none for %v. Pages show empty boxes: install fonts-noto-core, fonts-noto-cjk and fonts-noto-color-emoji", *missing)
	}
	return "Fonts: for all checked scripts"
}
