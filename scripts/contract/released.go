package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/browser-svc/svc/scripts/releases"
)

// released compares the documents with the latest release in openapi/released.
// Breaking changes require a new major version, additions a new minor version.
func (h *testEnvironment) released(ctx context.Context) (summary string, err error) {
	program, err := releases.BuildOasdiff(ctx, h.root, h.outputDir)
	if err != nil {
		return "", err
	}
	summary, err = releases.Comparer{
		Documents: os.DirFS(h.openapi), Released: filepath.Join(h.openapi, "released"),
		Oasdiff: program, Work: filepath.Join(h.outputDir, "released"),
	}.Run(ctx)
	log := summary
	if err != nil {
		log = err.Error()
	}
	if failed := os.WriteFile(filepath.Join(h.outputDir, "released.log"), []byte(log+"\n"), 0o644); failed != nil && err == nil {
		err = fmt.Errorf("write the log: %w", failed)
	}
	return summary, err
}
