package benchresult

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Row is one measurement: our figure, the figure compared with, and the target.
type Row struct {
	What, Unit string
	Ours       float64
	Other      float64 // the figure compared with; 0 if there is none
	Than       string  // names Other
	Target     Target
}

// Target is the target of a row; the zero value means none.
type Target struct {
	value float64
	most  bool // at most the value; otherwise at least
	ratio bool // a target of the ratio; otherwise of our figure
}

// AtLeast is a minimum of the ratio Ours/Other.
func AtLeast(ratio float64) Target { return Target{value: ratio, ratio: true} }

// AtMost is a maximum of the ratio Ours/Other.
func AtMost(ratio float64) Target { return Target{value: ratio, ratio: true, most: true} }

// FigureAtLeast is a minimum of Ours.
func FigureAtLeast(value float64) Target { return Target{value: value} }

// FigureAtMost is a maximum of Ours.
func FigureAtMost(value float64) Target { return Target{value: value, most: true} }

func (t Target) String() string {
	if t == (Target{}) {
		return ""
	}
	sign, times := ">= ", ""
	if t.most {
		sign = "<= "
	}
	if t.ratio {
		times = "x"
	}
	return sign + number(t.value) + times
}

func (r Row) ratio() float64 { return r.Ours / r.Other }

// verdict returns "yes" or "no" for a met or missed target, or "" if there is no
// target. Without another figure, a target of the ratio is missed.
func (r Row) verdict() string {
	value := r.Ours
	if r.Target.ratio {
		value = r.ratio()
	}
	switch {
	case r.Target == Target{}:
		return ""
	case r.Target.ratio && r.Other <= 0:
		return "no"
	case r.Target.most && value <= r.Target.value, !r.Target.most && value >= r.Target.value:
		return "yes"
	default:
		return "no"
	}
}

func (r Row) cells() []string {
	other, ratio := "", ""
	if r.Other > 0 {
		other, ratio = number(r.Other), number(r.ratio())
	}
	return []string{r.What, number(r.Ours), r.Unit, other, r.Than, ratio, r.Target.String(), r.verdict()}
}

// String returns the row as one line, for the progress output.
func (r Row) String() string {
	c := r.cells()
	text := fmt.Sprintf("%s: %s %s", c[0], c[1], c[2])
	switch {
	case r.Other > 0:
		text += fmt.Sprintf(", %s: %s, ratio %s", c[4], c[3], c[5])
	case r.Than != "":
		text += ", " + r.Than
	}
	if c[6] != "" {
		text += fmt.Sprintf(" (%s: %s)", c[6], c[7])
	}
	return text
}

// number formats a figure with three digits, or with all digits before the point.
func number(f float64) string {
	switch {
	case f == float64(int64(f)) || f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

// Table contains the rows of a benchmark.
type Table []Row

// String returns the table in Markdown.
func (t Table) String() string {
	lines := [][]string{{"measurement", "ours", "unit", "other", "compared with", "ratio", "target", "met"}}
	for _, r := range t {
		lines = append(lines, r.cells())
	}
	rightAligned := []int{1, 3, 5}
	widths := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	for n, cells := range lines {
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(rightAligned, i) {
				cell, pad = pad, cell
			}
			b.WriteString("| " + cell + pad + " ")
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i, width := range widths {
			end := "-"
			if slices.Contains(rightAligned, i) {
				end = ":"
			}
			b.WriteString("|" + strings.Repeat("-", width+1) + end)
		}
		b.WriteString("|\n")
	}
	return b.String()
}
