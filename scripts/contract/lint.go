package main

import (
	"context"
	"path/filepath"
)

// lint checks the documents with the rules in openapi/redocly.yaml and
// openapi/spectral.yaml.
func (h *testEnvironment) lint(ctx context.Context) (string, error) {
	output, err := h.toolOutput(ctx, "lint", nil, filepath.Join(h.root, "scripts", "lint-documents"), h.openapi)
	return summaryOf(output), err
}
