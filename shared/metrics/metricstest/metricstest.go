// Package metricstest reads and checks the metrics of a program in tests.
package metricstest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scrape is the answer to one scrape.
type Scrape struct {
	Families map[string]*dto.MetricFamily // by name
	Series   int                          // as Prometheus counts them: each bucket is one
	text     []byte
}

// Parse parses an answer in the text format.
func Parse(t testing.TB, text []byte) *Scrape {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("parse the metrics: %v", err)
	}
	s := &Scrape{Families: families, text: text}
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) > 0 && line[0] != '#' {
			s.Series++
		}
	}
	return s
}

// Find returns the value of a counter or gauge, or the number of observations of a
// histogram or summary. The labels are names and values, all labels of the series. It
// returns false if there is no such series.
func (s *Scrape) Find(name string, labels ...string) (float64, bool) {
	expected := map[string]string{}
	for i := 0; i+1 < len(labels); i += 2 {
		expected[labels[i]] = labels[i+1]
	}
	for _, m := range s.Families[name].GetMetric() {
		got := map[string]string{}
		for _, pair := range m.GetLabel() {
			got[pair.GetName()] = pair.GetValue()
		}
		if !maps.Equal(got, expected) {
			continue
		}
		switch s.Families[name].GetType() {
		case dto.MetricType_COUNTER:
			return m.GetCounter().GetValue(), true
		case dto.MetricType_GAUGE:
			return m.GetGauge().GetValue(), true
		case dto.MetricType_HISTOGRAM:
			return float64(m.GetHistogram().GetSampleCount()), true
		case dto.MetricType_SUMMARY:
			return float64(m.GetSummary().GetSampleCount()), true
		}
	}
	return 0, false
}

// Value is Find, but fails the test if there is no such series.
func (s *Scrape) Value(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	value, ok := s.Find(name, labels...)
	if !ok {
		t.Errorf("there is no series %s %q", name, labels)
	}
	return value
}

// Lint fails the test for each finding of Prometheus's linter, except for these metrics.
func (s *Scrape) Lint(t testing.TB, except ...string) {
	t.Helper()
	findings, err := promlint.New(bytes.NewReader(s.text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		if !slices.Contains(except, finding.Metric) {
			t.Errorf("promlint: %s: %s", finding.Metric, finding.Text)
		}
	}
}

// row matches a row of the tables in METRICS.md: name, type, labels.
var row = regexp.MustCompile("^\\| `(\\w+)` \\| (\\w+) \\|([^|]*)\\|")

// CheckDocument compares the metrics whose names begin with the prefix with the tables
// of a document: names, types and labels. All of them must exist.
func (s *Scrape) CheckDocument(t testing.TB, file, prefix string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := row.FindStringSubmatch(line); cells != nil && strings.HasPrefix(cells[1], prefix) {
			documented[cells[1]] = cells[2] + " of " + strings.TrimSpace(strings.ReplaceAll(cells[3], "`", ""))
		}
	}
	found := map[string]string{}
	for name, family := range s.Families {
		if strings.HasPrefix(name, prefix) {
			found[name] = describe(family)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if documented[name] != found[name] {
			t.Errorf("%s is a %s, but %s has %q", name, found[name], file, documented[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if found[name] == "" {
			t.Errorf("%s has %s, which does not exist", file, name)
		}
	}
}

// describe returns the type and the labels, such as "counter of reason, verdict".
func describe(family *dto.MetricFamily) string {
	var labels []string
	for _, pair := range family.GetMetric()[0].GetLabel() {
		labels = append(labels, pair.GetName())
	}
	slices.Sort(labels)
	return fmt.Sprintf("%s of %s", strings.ToLower(family.GetType().String()), strings.Join(labels, ", "))
}
