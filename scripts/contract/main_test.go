package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func names(chosen []stage) string {
	var all []string
	for _, s := range chosen {
		all = append(all, s.name)
	}
	return strings.Join(all, " ")
}

func TestChoose_KeepsStageOrder(t *testing.T) {
	all := []stage{{name: "a"}, {name: "b"}, {name: "c"}}
	for given, want := range map[string]string{"": "a b c", "c,a": "a c", "b": "b"} {
		chosen, err := choose(all, given)
		if err != nil || names(chosen) != want {
			t.Errorf("%q chooses %q, %v; want %q", given, names(chosen), err, want)
		}
	}
	for _, given := range []string{"d", "a,d", "a,"} {
		if _, err := choose(all, given); err == nil {
			t.Errorf("%q: no error", given)
		}
	}
}

func TestRunStages_ContinuesAfterFailure(t *testing.T) {
	passes := func(*testEnvironment, context.Context) (string, error) { return "did it", nil }
	fails := func(*testEnvironment, context.Context) (string, error) { return "tried", errors.New("it failed") }
	results := new(testEnvironment).runStages(t.Context(), []stage{{name: "first", run: fails}, {name: "second", run: passes}})
	for i := range results {
		results[i].duration = time.Second
	}
	want := "STAGE   SUMMARY  DURATION  RESULT\n" +
		"first   tried    1.0 s     FAILED\n" +
		"second  did it   1.0 s     passed\n" +
		"                 2.0 s     \n"
	if diff := cmp.Diff(want, table(results)); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}

func TestRunStages_StopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ends := func(*testEnvironment, context.Context) (string, error) { cancel(); return "", ctx.Err() }
	never := func(*testEnvironment, context.Context) (string, error) {
		t.Error("the second stage ran")
		return "", nil
	}
	if results := new(testEnvironment).runStages(ctx, []stage{{name: "first", run: ends}, {name: "second", run: never}}); len(results) != 1 {
		t.Errorf("%d results", len(results))
	}
}
