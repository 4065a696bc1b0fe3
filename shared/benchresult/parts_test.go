package benchresult

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParts_MeasureSelectedInOrder(t *testing.T) {
	var measured []string
	part := func(name string, err error) Part {
		return Part{Name: name, Measure: func(context.Context) ([]Row, error) {
			measured = append(measured, name)
			return []Row{{What: name}}, err
		}}
	}
	parts := Parts{part("a", nil), part("b", nil), part("c", errors.New("broken"))}
	if rows, err := parts.Measure(t.Context(), []string{"b", "a"}); err != nil || len(rows) != 2 || !slices.Equal(measured, []string{"a", "b"}) {
		t.Errorf("measured %v: %v, %v", measured, rows, err)
	}
	if _, err := parts.Measure(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "c: broken") {
		t.Errorf("a part that fails: %v", err)
	}
	if err := parts.Check([]string{"a", "x"}); err == nil || !strings.Contains(err.Error(), `unknown part "x": the parts are a, b, c`) {
		t.Errorf("an unknown name: %v", err)
	}
	if err := parts.Check(nil); err != nil {
		t.Error(err)
	}
}
