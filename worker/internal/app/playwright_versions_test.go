package app_test

import (
	"bytes"
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/playwright"
)

// playwrightModules returns the versions of playwright-core that the worker has. In the full
// depth, these are also the newest ones and an old one of the npm registry.
func (r *testWorker) playwrightModules(t *testing.T) []playwright.Installed {
	t.Helper()
	if testenv.Full() {
		registry := playwright.Registry{URL: "https://registry.npmjs.org"}
		for _, version := range []string{"1.65", "1.64", "1.63", "1.49"} {
			if _, _, err := registry.Install(t.Context(), r.config.PlaywrightDir, version); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := playwright.List(r.config.PlaywrightDir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// nodeWith runs a script with the playwright-core of a directory.
func nodeWith(t *testing.T, module string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{args[0], module}, args[1:]...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s%s", err, out.Bytes(), problems.Bytes())
	}
	return out.Bytes()
}
