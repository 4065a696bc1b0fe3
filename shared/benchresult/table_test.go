package benchresult_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/benchresult"
)

func TestTarget_ComparesRatioOrFigure(t *testing.T) {
	for _, test := range []struct {
		ours, other float64
		target      benchresult.Target
		want        string
	}{
		{120, 10, benchresult.AtLeast(12), "yes"},
		{119, 10, benchresult.AtLeast(12), "no"},
		{13, 10, benchresult.AtMost(1.3), "yes"},
		{14, 10, benchresult.AtMost(1.3), "no"},
		{14, 0, benchresult.AtMost(1.3), "no"},
		{14, 0, benchresult.AtLeast(1.3), "no"},
		{7, 100, benchresult.FigureAtMost(7), "yes"},
		{7.1, 100, benchresult.FigureAtMost(7), "no"},
		{0, 0, benchresult.FigureAtMost(0), "yes"},
		{1, 0, benchresult.FigureAtMost(0), "no"},
		{95, 0, benchresult.FigureAtLeast(95), "yes"},
		{94.9, 0, benchresult.FigureAtLeast(95), "no"},
		{1, 2, benchresult.Target{}, ""},
	} {
		line := strings.Split(benchresult.Table{{Ours: test.ours, Other: test.other, Target: test.target}}.String(), "\n")[2]
		cells := strings.Split(line, "|")
		if got := strings.TrimSpace(cells[len(cells)-2]); got != test.want {
			t.Errorf("%v compared with %v, target %q: got %q, want %q", test.ours, test.other, test.target, got, test.want)
		}
	}
}

func TestTable_String(t *testing.T) {
	got := benchresult.Table{
		{What: "pairs", Unit: "1/s", Ours: 12345.6, Other: 1000, Than: "off", Target: benchresult.AtLeast(12)},
		{What: "p99", Unit: "ms", Ours: 6.789, Target: benchresult.FigureAtMost(7)},
		{What: "CPU", Unit: "µs", Ours: 45.67},
		{What: "left", Ours: 0, Than: "none, missing", Target: benchresult.FigureAtMost(0)},
	}.String()
	want := "" +
		"| measurement |  ours | unit | other | compared with | ratio | target | met |\n" +
		"|-------------|------:|------|------:|---------------|------:|--------|-----|\n" +
		"| pairs       | 12346 | 1/s  |  1000 | off           |  12.3 | >= 12x | yes |\n" +
		"| p99         |  6.79 | ms   |       |               |       | <= 7   | yes |\n" +
		"| CPU         |  45.7 | µs   |       |               |       |        |     |\n" +
		"| left        |     0 |      |       | none, missing |       | <= 0   | yes |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
