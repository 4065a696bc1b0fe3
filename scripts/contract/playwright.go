package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// publishPlaywright creates the directory of the worker with the playwright-core of scripts/npm-install.
func (h *testEnvironment) publishPlaywright() error {
	module := filepath.Join(h.root, "scripts", "node_modules", "playwright-core")
	text, err := os.ReadFile(filepath.Join(module, "package.json"))
	if err != nil {
		return err
	}
	var manifest struct{ Version string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		return err
	}
	if err := os.MkdirAll(h.playwrightDir(), 0o755); err != nil {
		return err
	}
	return os.Symlink(module, filepath.Join(h.playwrightDir(), manifest.Version))
}

func (h *testEnvironment) playwrightDir() string {
	return filepath.Join(h.data, "worker", "playwright")
}
