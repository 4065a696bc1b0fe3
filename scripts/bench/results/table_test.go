package results_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/scripts/bench/results"
)

func TestATargetIsMetByTheRatioOrTheFigureItIsAbout(t *testing.T) {
	for _, test := range []struct {
		ours, other float64
		target      results.Target
		want        string
	}{
		{120, 10, results.AtLeast(12), "yes"},
		{119, 10, results.AtLeast(12), "no"},
		{13, 10, results.AtMost(1.3), "yes"},
		{14, 10, results.AtMost(1.3), "no"},
		{14, 0, results.AtMost(1.3), "no"},
		{14, 0, results.AtLeast(1.3), "no"},
		{7, 100, results.FigureAtMost(7), "yes"},
		{7.1, 100, results.FigureAtMost(7), "no"},
		{0, 0, results.FigureAtMost(0), "yes"},
		{1, 0, results.FigureAtMost(0), "no"},
		{95, 0, results.FigureAtLeast(95), "yes"},
		{94.9, 0, results.FigureAtLeast(95), "no"},
		{1, 2, results.Target{}, ""},
	} {
		line := strings.Split(results.Table{{Ours: test.ours, Other: test.other, Target: test.target}}.String(), "\n")[2]
		cells := strings.Split(line, "|")
		if got := strings.TrimSpace(cells[len(cells)-2]); got != test.want {
			t.Errorf("%v beside %v is held to %q: %q, want %q", test.ours, test.other, test.target, got, test.want)
		}
	}
}

func TestTheTableHasARowForEachMeasurement(t *testing.T) {
	got := results.Table{
		{What: "pairs", Unit: "1/s", Ours: 12345.6, Other: 1000, Than: "off", Target: results.AtLeast(12)},
		{What: "p99", Unit: "ms", Ours: 6.789, Target: results.FigureAtMost(7)},
		{What: "CPU", Unit: "µs", Ours: 45.67},
		{What: "left", Ours: 0, Than: "none, missing", Target: results.FigureAtMost(0)},
	}.String()
	want := "" +
		"|       |  ours |     | other | the other     | ratio | target | met |\n" +
		"|-------|------:|-----|------:|---------------|------:|--------|-----|\n" +
		"| pairs | 12346 | 1/s |  1000 | off           |  12.3 | >= 12x | yes |\n" +
		"| p99   |  6.79 | ms  |       |               |       | <= 7   | yes |\n" +
		"| CPU   |  45.7 | µs  |       |               |       |        |     |\n" +
		"| left  |     0 |     |       | none, missing |       | <= 0   | yes |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
