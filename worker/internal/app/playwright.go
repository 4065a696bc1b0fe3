package app

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/playwright"
)

// playwrightDir returns the directory with the versions of playwright-core.
func (c Config) playwrightDir() (string, error) {
	return filepath.Abs(cmp.Or(c.PlaywrightDir, filepath.Join(c.DataDir, "playwright")))
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

// traceViewer returns the directory of the newest trace viewer that reads the traces of this worker.
func (f playwrightFinder) traceViewer() (dir string, err error) {
	all, err := playwright.List(f.dir)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(i playwright.Installed) bool { return i.ReadsTraces() })
	if i < 0 {
		return "", fault.New(fault.NotImplemented, "The trace viewer needs playwright-core 1.57 or later on this worker. Run "+playwright.InstallCommand+"1.65 there.")
	}
	return filepath.Join(all[i].Dir, "lib", "vite", "traceViewer"), nil
}

// programPath returns the path of a program, without links: sandboxes see its directory.
func programPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// playwrightCommand manages the versions of playwright-core on this machine.
func playwrightCommand(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "playwright", Summary: "Install, list and remove versions of playwright-core",
		Commands: []program.Command[Config]{installPlaywright(out), listPlaywright(out), removePlaywright(out)},
	}
}

func installPlaywright(out io.Writer) program.Command[Config] {
	var first, address string
	var more []string
	return program.Command[Config]{
		Name: "install", Summary: "Install versions of playwright-core from the npm registry",
		Detail: "Installs into DATA_DIR/playwright. A running worker finds the versions there. Clients of\n" +
			"/playwright need a version with their own major and minor number. The worker also needs Node.js.",
		Args: []program.Arg{{Name: "VERSION", Doc: "Such as 1.65, for its newest patch, or 1.65.1", Value: &first}}, More: &more,
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&address, "registry", "https://registry.npmjs.org", "`URL` of the npm registry")
		},
		Run: func(ctx context.Context, config Config, _ *slog.Logger) error {
			dir, err := config.playwrightDir()
			if err != nil {
				return err
			}
			roots, err := config.rootCAs()
			if err != nil {
				return err
			}
			registry := playwright.Registry{URL: address, Roots: roots}
			for _, version := range append([]string{first}, more...) {
				installed, fresh, err := registry.Install(ctx, dir, version)
				if err != nil {
					return err
				}
				verb := "Installed"
				if !fresh {
					verb = "Already installed:"
				}
				if _, err := fmt.Fprintf(out, "%s playwright-core %s in %s\n", verb, installed, dir); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func listPlaywright(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "list", Summary: "List the installed versions of playwright-core",
		Run: func(_ context.Context, config Config, _ *slog.Logger) error {
			dir, err := config.playwrightDir()
			if err != nil {
				return err
			}
			all, err := playwright.List(dir)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "INSTALLED\tPATH")
			for _, i := range all {
				_, _ = fmt.Fprintf(w, "%s\t%s\n", i.Version, i.Dir)
			}
			return w.Flush()
		},
	}
}

func removePlaywright(out io.Writer) program.Command[Config] {
	var version string
	return program.Command[Config]{
		Name: "remove", Summary: "Remove an installed version of playwright-core",
		Detail: "Clients of this version that are connected can lose their browsers.",
		Args:   []program.Arg{{Name: "VERSION", Doc: "Such as 1.65.1, or 1.65 if only one patch of it is installed", Value: &version}},
		Run: func(_ context.Context, config Config, _ *slog.Logger) error {
			dir, err := config.playwrightDir()
			if err != nil {
				return err
			}
			removed, err := playwright.Remove(dir, version)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "Removed playwright-core %s\n", removed)
			return err
		},
	}
}
