package app

import (
	"errors"
	"os/exec"
	"path/filepath"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/playwright"
)

// playwrightDir returns the directory with the versions of playwright-core.
func (c Config) playwrightDir() (string, error) {
	if c.PlaywrightDir != "" {
		return filepath.Abs(c.PlaywrightDir)
	}
	return filepath.Abs(filepath.Join(c.DataDir, "playwright"))
}

// playwrightFinder finds the programs of Playwright's server where launches can use them.
type playwrightFinder struct {
	launcher *browser.Launcher
	dir      string
}

// find sets the programs for the version of a client.
func (f playwrightFinder) find(userAgent string, programs *browser.PlaywrightPrograms) error {
	if !f.launcher.SupportsDrivers() {
		return fault.New(fault.NotImplemented, "Playwright's protocol needs launches with a separate network, which the host of this worker does not allow. GET /fleet/status shows the reason. "+
			"connectOverCDP with /launch works without it.")
	}
	node, err := programPath("node")
	if err != nil {
		return fault.Wrap(err, fault.NotImplemented, "Playwright's protocol needs Node.js 20 or later in the PATH of this worker; on Debian: apt-get install nodejs.")
	}
	found, err := playwright.Find(f.dir, userAgent)
	if mismatch, ok := errors.AsType[*playwright.MismatchError](err); ok {
		return fault.New(fault.PreconditionRequired, mismatch.Error())
	}
	if errors.Is(err, playwright.ErrNone) {
		return fault.Wrap(err, fault.NotImplemented, "No version of playwright-core is installed on this worker. Run "+playwright.InstallCommand+"VERSION there, with the version of your client, such as 1.65.")
	}
	if err != nil {
		return err
	}
	programs.Node, programs.Library = node, found.Dir
	programs.FFmpeg, _ = programPath("ffmpeg") // recordVideo says that it is missing
	return nil
}

// programPath returns the path of a program, without links: sandboxes see its directory.
func programPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}
