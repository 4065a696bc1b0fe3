package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// row is one measurement: our figure beside another's, and what was aimed at.
type row struct {
	what, unit string
	ours       float64
	other      float64 // 0 where there is nothing to compare with
	than       string  // what the other is
	target     target
}

// target is what a row is held to; the zero one is nothing.
type target struct {
	value float64
	most  bool // at most the value; else at least
	ratio bool // of ours to the other; else of our own figure
}

// atLeast and atMost hold the ratio.
func atLeast(ratio float64) target { return target{value: ratio, ratio: true} }
func atMost(ratio float64) target  { return target{value: ratio, ratio: true, most: true} }

// figureAtLeast and figureAtMost hold our own figure.
func figureAtLeast(value float64) target { return target{value: value} }
func figureAtMost(value float64) target  { return target{value: value, most: true} }

func (t target) String() string {
	if t == (target{}) {
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

func (r row) ratio() float64 { return r.ours / r.other }

// verdict is whether the target is met, "" without one.
func (r row) verdict() string {
	value := r.ours
	if r.target.ratio {
		value = r.ratio()
	}
	switch {
	case r.target == target{}:
		return ""
	case r.target.most && value <= r.target.value, !r.target.most && value >= r.target.value:
		return "yes"
	default:
		return "no"
	}
}

func (r row) cells() []string {
	other, ratio := "", ""
	if r.other > 0 {
		other, ratio = number(r.other), number(r.ratio())
	}
	return []string{r.what, number(r.ours), r.unit, other, r.than, ratio, r.target.String(), r.verdict()}
}

func (r row) String() string {
	c := r.cells()
	text := fmt.Sprintf("%s: %s %s", c[0], c[1], c[2])
	if r.other > 0 {
		text += fmt.Sprintf(", %s: %s, ratio %s", c[4], c[3], c[5])
	}
	if c[6] != "" {
		text += fmt.Sprintf(" (%s: %s)", c[6], c[7])
	}
	return text
}

// number has three digits or all before the point.
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

type table []row

// String is the table in Markdown.
func (t table) String() string {
	lines := [][]string{{"", "ours", "", "other", "the other", "ratio", "target", "met"}}
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
