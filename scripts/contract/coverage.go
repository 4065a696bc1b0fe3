package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/contracttest"
)

// seen compares what every stage and test has seen with what the documents say
// can be seen: each status of each operation at least once, and no other ever.
func (h *testEnvironment) seen(ctx context.Context) (string, error) {
	docs, err := loadDocuments(ctx, h.openapi)
	if err != nil {
		return "", err
	}
	observed, err := contracttest.ReadObservations(h.observationsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	c := compare(append(documented("cloud", docs.cloud.T()), documented("worker", docs.worker.T())...), observed)
	file := filepath.Join(h.outputDir, "seen.txt")
	if err := os.WriteFile(file, []byte(c.table()), 0o644); err != nil {
		return "", err
	}
	summary := fmt.Sprintf("%d of %d responses of %d operations observed, %d undocumented", c.count(covered), c.count(covered)+c.count(notCovered), c.operations(), c.count(undocumented))
	if c.count(notCovered)+c.count(undocumented) > 0 {
		return summary, fmt.Errorf("%d documented responses were not observed, %d observed responses are not documented; see the table in %s\n  %s",
			c.count(notCovered), c.count(undocumented), file, strings.Join(c.gaps(), "\n  "))
	}
	return summary, nil
}

// documented lists what the operations of a document may be answered with. What
// only default covers is not among it: that is for clients, which have to be
// ready for what nobody foresaw.
func documented(surface string, spec *openapi3.T) []contracttest.Observation {
	var all []contracttest.Observation
	for _, item := range spec.Paths.Map() {
		for _, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				if code, err := strconv.Atoi(status); err == nil {
					all = append(all, contracttest.Observation{Surface: surface, OperationID: operation.OperationID, Status: code})
				}
			}
		}
	}
	return all
}

// coverageStatus is what became of one answer.
type coverageStatus string

const (
	covered      coverageStatus = "seen"
	notCovered   coverageStatus = "NOT SEEN"
	undocumented coverageStatus = "UNDOCUMENTED"
)

// comparison is every answer that is documented or was seen.
type comparison map[contracttest.Observation]coverageStatus

func compare(documented []contracttest.Observation, observed map[contracttest.Observation]bool) comparison {
	c := comparison{}
	for _, one := range documented {
		c[one] = notCovered
	}
	for one := range observed {
		if _, ok := c[one]; ok {
			c[one] = covered
		} else {
			c[one] = undocumented
		}
	}
	return c
}

func (c comparison) count(m coverageStatus) int {
	n := 0
	for _, one := range c {
		if one == m {
			n++
		}
	}
	return n
}

func (c comparison) operations() int {
	names := map[string]bool{}
	for one := range c {
		names[one.Surface+" "+one.OperationID] = true
	}
	return len(names)
}

func (c comparison) sorted() []contracttest.Observation {
	return slices.SortedFunc(maps.Keys(c), func(a, b contracttest.Observation) int {
		return cmp.Or(cmp.Compare(a.Surface, b.Surface), cmp.Compare(a.OperationID, b.OperationID), cmp.Compare(a.Status, b.Status))
	})
}

// gaps has a line for each operation that something is wrong with.
func (c comparison) gaps() []string {
	var lines []string
	for group := range byOperation(c.sorted()) {
		var wrong []string
		for _, one := range group {
			if c[one] != covered {
				wrong = append(wrong, fmt.Sprintf("%d %s", one.Status, strings.ToLower(string(c[one]))))
			}
		}
		if len(wrong) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", group[0].Surface, group[0].OperationID, strings.Join(wrong, ", ")))
		}
	}
	return lines
}

// table has a row for each operation, with its statuses and their marks.
func (c comparison) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for group := range byOperation(c.sorted()) {
		_, _ = fmt.Fprintf(w, "%s\t%s", group[0].Surface, group[0].OperationID)
		for _, one := range group {
			_, _ = fmt.Fprintf(w, "\t%d %s", one.Status, c[one])
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return b.String()
}

// byOperation cuts a sorted list where the operation changes.
func byOperation(all []contracttest.Observation) func(yield func([]contracttest.Observation) bool) {
	return func(yield func([]contracttest.Observation) bool) {
		for len(all) > 0 {
			end := slices.IndexFunc(all, func(s contracttest.Observation) bool {
				return s.Surface != all[0].Surface || s.OperationID != all[0].OperationID
			})
			if end < 0 {
				end = len(all)
			}
			if !yield(all[:end]) {
				return
			}
			all = all[end:]
		}
	}
}
