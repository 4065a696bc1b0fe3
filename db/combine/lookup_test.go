package combine

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookup_DeduplicatesAndAnswersAll(t *testing.T) {
	var asked []int
	answers, err := Lookup([]int{3, 1, 3, 7, 1}, func(distinct []int) (map[int]string, error) {
		asked = distinct
		return map[int]string{1: "one", 3: "three"}, nil
	})
	if diff := cmp.Diff([]int{3, 1, 7}, asked); diff != "" || err != nil {
		t.Errorf("%v; asked: %s", err, diff)
	}
	if diff := cmp.Diff([]string{"three", "one", "three", "", "one"}, answers); diff != "" {
		t.Error(diff)
	}
}

func TestLookup_FailureFailsAll(t *testing.T) {
	broken := errors.New("broken")
	answers, err := Lookup([]int{1}, func([]int) (map[int]string, error) { return nil, broken })
	if answers != nil || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", answers, err)
	}
}
