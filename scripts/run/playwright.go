package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// playwrightVersion is the version of Playwright's clients that /playwright accepts.
const playwrightVersion = "1.65"

// playwrightLimit is the limit of its installation. Without a registry, make run goes on.
const playwrightLimit = time.Minute

// installPlaywright installs playwright-core for /playwright, unless a version is installed or
// the machine has no Node.js. PLAYWRIGHT=0 prevents it.
func installPlaywright(ctx context.Context) {
	if installed, _ := filepath.Glob(filepath.Join(workerDataDir(), "playwright", playwrightVersion+".*")); len(installed) > 0 || setting("PLAYWRIGHT", "1") == "0" {
		return
	}
	if _, err := exec.LookPath("node"); err != nil {
		return
	}
	logf("Installing playwright-core %s for clients of Playwright", playwrightVersion)
	ctx, cancel := context.WithTimeout(ctx, playwrightLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "svc-worker"), "playwright", "install", playwrightVersion)
	cmd.Env = append(os.Environ(), "DATA_DIR="+workerDataDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		logf("Clients of Playwright cannot connect, because the installation failed: %v: %s", err, strings.TrimSpace(string(out)))
	}
}
