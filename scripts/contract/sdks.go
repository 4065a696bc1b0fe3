package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sdks generates the chosen SDKs and runs the same scenario with each.
func (h *testEnvironment) sdks(ctx context.Context) (string, error) {
	found, err := filepath.Glob(filepath.Join(h.root, "scripts", "contract", "sdk", "*", "run"))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errors.New("no files match scripts/contract/sdk/*/run")
	}
	var all []string
	for _, run := range found {
		all = append(all, filepath.Base(filepath.Dir(run)))
	}
	chosen := h.sdkNames
	if len(chosen) == 0 {
		chosen = all
	}
	var passed []string
	var problems []error
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return "", fmt.Errorf("unknown SDK %s; there are: %s", name, strings.Join(all, ", "))
		}
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
	return fmt.Sprintf("%d of %d SDKs: %s", len(passed), len(chosen), strings.Join(passed, ", ")), errors.Join(problems...)
}
