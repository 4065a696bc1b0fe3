package main

import (
	"context"
	"fmt"
	"strings"
)

// tests runs the Go tests whose clients check all exchanges, and records the
// observed responses.
func (h *testEnvironment) tests(ctx context.Context) (string, error) {
	output, err := h.toolOutput(ctx, "tests", nil, "go", "test", "-count=1", "-timeout=12m",
		"./cloud/internal/app", "./cloud/internal/api/rest", "./worker/internal/app", "./worker/internal/api/rest")
	return fmt.Sprintf("%d packages of tests", strings.Count("\n"+output, "\nok ")), err
}
