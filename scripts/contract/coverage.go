package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/browser-svc/svc/shared/contracttest"
)

// seen compares the responses that all stages and tests have observed with the
// documented ones: each status of each operation must be observed at least once,
// and no other status.
func (h *testEnvironment) coverage(ctx context.Context) (string, error) {
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

// documented lists the documented responses of all operations, without default
// responses, which only prepare clients for unexpected errors.
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

// coverageStatus is the result for one response.
type coverageStatus string

const (
	covered      coverageStatus = "seen"
	notCovered   coverageStatus = "NOT SEEN"
	undocumented coverageStatus = "UNDOCUMENTED"
)

// comparison contains every response that is documented or was observed.
type comparison map[contracttest.Observation]coverageStatus

func compare(documented []contracttest.Observation, observed map[contracttest.Observation]bool) comparison {
	c := comparison{}
	for _, observation := range documented {
		c[observation] = notCovered
	}
	for observation := range observed {
		if _, ok := c[observation]; ok {
			c[observation] = covered
		} else if observation.Status != http.StatusRequestHeaderFieldsTooLarge { // the server refuses long headers and queries of any operation
			c[observation] = undocumented
		}
	}
	return c
}

func (c comparison) count(m coverageStatus) int {
	n := 0
	for _, status := range c {
		if status == m {
			n++
		}
	}
	return n
}

func (c comparison) operations() int {
	names := map[string]bool{}
	for observation := range c {
		names[observation.Surface+" "+observation.OperationID] = true
	}
	return len(names)
}

func (c comparison) sorted() []contracttest.Observation {
	return slices.SortedFunc(maps.Keys(c), func(a, b contracttest.Observation) int {
		return cmp.Or(cmp.Compare(a.Surface, b.Surface), cmp.Compare(a.OperationID, b.OperationID), cmp.Compare(a.Status, b.Status))
	})
}

// gaps returns a line for each operation with missing or undocumented responses.
func (c comparison) gaps() []string {
	var lines []string
	for group := range byOperation(c.sorted()) {
		var wrong []string
		for _, observation := range group {
			if c[observation] != covered {
				wrong = append(wrong, fmt.Sprintf("%d %s", observation.Status, strings.ToLower(string(c[observation]))))
			}
		}
		if len(wrong) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", group[0].Surface, group[0].OperationID, strings.Join(wrong, ", ")))
		}
	}
	return lines
}

// table returns a row for each operation, with the results of its statuses.
func (c comparison) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for group := range byOperation(c.sorted()) {
		_, _ = fmt.Fprintf(w, "%s\t%s", group[0].Surface, group[0].OperationID)
		for _, observation := range group {
			_, _ = fmt.Fprintf(w, "\t%d %s", observation.Status, c[observation])
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return b.String()
}

// byOperation splits a sorted list into one list per operation.
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
