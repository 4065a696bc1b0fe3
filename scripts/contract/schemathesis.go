package main

import (
	"context"
	"path/filepath"
	"strconv"
)

// schemathesis generates valid and invalid requests from the documents and checks
// the responses.
func (h *testEnvironment) schemathesis(ctx context.Context) (string, error) {
	if h.only != "" {
		return h.schemathesisOf(ctx, h.only)
	}
	return h.external(ctx, "schemathesis", "schemathesis")
}

// schemathesisOf tests a single operation of the cloud.
func (h *testEnvironment) schemathesisOf(ctx context.Context, operationID string) (string, error) {
	folder := filepath.Join(h.root, "scripts", "contract")
	if err := h.tool(ctx, "venv", nil, filepath.Join(folder, "venv")); err != nil {
		return "", err
	}
	environment := append(h.toolEnvironment(), "CONTRACT_SEED=1", "PYTHONDONTWRITEBYTECODE=1")
	err := h.tool(ctx, "schemathesis", environment, filepath.Join(h.root, "bin", "venv", "bin", "python"),
		filepath.Join(folder, "schemathesis", "run_api.py"), "cloud", h.outputDir, "--include-operation-id", operationID,
		"--phases", "examples,coverage,fuzzing") // the stateful phase needs several operations
	return strconv.Itoa(h.randomExamples) + " examples of " + operationID, err
}
