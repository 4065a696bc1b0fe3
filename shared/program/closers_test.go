package program_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/browser-svc/svc/shared/program"
)

func TestClosers_CloseInReverseOrderDespiteErrors(t *testing.T) {
	var closed []string
	failed := errors.New("failed")
	var c program.Closers
	c.AddFunc(func() { closed = append(closed, "first") })
	c.Add(func() error { closed = append(closed, "second"); return failed })
	c.AddFunc(func() { closed = append(closed, "third") })
	if err := c.Close(); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if err := c.Close(); err != nil || !slices.Equal(closed, []string{"third", "second", "first"}) {
		t.Errorf("closed %q, then %v", closed, err)
	}
}
