package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// sdks generates an SDK in each language and runs the same scenario with it.
func (h *testEnvironment) sdks(ctx context.Context) (string, error) {
	found, err := filepath.Glob(filepath.Join(h.root, "scripts", "contract", "sdk", "*", "run"))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errors.New("no files match scripts/contract/sdk/*/run")
	}
	var passed []string
	var problems []error
	for _, run := range found {
		name := filepath.Base(filepath.Dir(run))
		began := time.Now()
		summary, err := h.external(ctx, "sdk-"+name, filepath.Join("sdk", name))
		if err != nil {
			fmt.Printf("  %s FAILED after %s: %v\n", name, seconds(time.Since(began)), err)
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		} else {
			fmt.Printf("  %s passed after %s: %s\n", name, seconds(time.Since(began)), summary)
			passed = append(passed, name)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Sprintf("%d of %d SDKs: %s", len(passed), len(found), strings.Join(passed, ", ")), errors.Join(problems...)
}
