package benchresult_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/benchresult"
)

func TestInterleave_AlternatesSidesAfterWarmUp(t *testing.T) {
	var order []string
	turn := 0
	side := func(name string) benchresult.Side[int] {
		return func(context.Context) (int, error) {
			order = append(order, name)
			turn++
			return turn, nil
		}
	}
	all, err := benchresult.Interleave(t.Context(), 3, side("a"), side("b"), side("c"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "c", "b", "a", "a", "b", "c", "c", "b", "a"}, order); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]int{{6, 7, 12}, {5, 8, 11}, {4, 9, 10}}, all); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestInterleave_StopsAtError(t *testing.T) {
	broken := errors.New("broken")
	_, err := benchresult.Interleave(t.Context(), 3, func(context.Context) (int, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

func TestQuantile_IsMeasuredValue(t *testing.T) {
	twenty := make([]int, 20)
	for i := range twenty {
		twenty[19-i] = i + 1
	}
	same := func(i int) float64 { return float64(i) }
	for _, test := range []struct {
		values []int
		share  float64
		want   float64
	}{{twenty, 0, 1}, {twenty, 0.5, 10}, {twenty, 0.95, 19}, {twenty, 1, 20}, {[]int{3, 1, 2}, 0.5, 2}, {[]int{7}, 0.95, 7}} {
		if got := benchresult.Quantile(test.values, test.share, same); got != test.want {
			t.Errorf("%v of %v: %v, want %v", test.share, test.values, got, test.want)
		}
	}
	if got := benchresult.Median([]int{9, 1, 5}, same); got != 5 {
		t.Errorf("the median of 9, 1, 5 is %v", got)
	}
}
