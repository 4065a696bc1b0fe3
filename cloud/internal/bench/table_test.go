package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATargetIsMetByTheRatioOrTheFigureItIsAbout(t *testing.T) {
	for _, test := range []struct {
		ours, other float64
		target      target
		want        string
	}{
		{120, 10, atLeast(12), "yes"},
		{119, 10, atLeast(12), "no"},
		{13, 10, atMost(1.3), "yes"},
		{14, 10, atMost(1.3), "no"},
		{7, 100, figureAtMost(7), "yes"},
		{7.1, 100, figureAtMost(7), "no"},
		{95, 0, figureAtLeast(95), "yes"},
		{94.9, 0, figureAtLeast(95), "no"},
		{1, 2, target{}, ""},
	} {
		r := row{ours: test.ours, other: test.other, target: test.target}
		if got := r.verdict(); got != test.want {
			t.Errorf("%v beside %v is held to %q: %q, want %q", test.ours, test.other, test.target, got, test.want)
		}
	}
}

func TestTheTableHasARowForEachMeasurement(t *testing.T) {
	got := table{
		{"pairs", "1/s", 12345.6, 1000, "off", atLeast(12)},
		{"p99", "ms", 6.789, 0, "", figureAtMost(7)},
		{"CPU", "µs", 45.67, 0, "", target{}},
	}.String()
	want := "" +
		"|       |  ours |     | other | the other | ratio | target | met |\n" +
		"|-------|------:|-----|------:|-----------|------:|--------|-----|\n" +
		"| pairs | 12346 | 1/s |  1000 | off       |  12.3 | >= 12x | yes |\n" +
		"| p99   |  6.79 | ms  |       |           |       | <= 7   | yes |\n" +
		"| CPU   |  45.7 | µs  |       |           |       |        |     |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
