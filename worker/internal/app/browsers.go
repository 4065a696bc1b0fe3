package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/install"
)

// browsersCommand manages the browser builds of this machine. Results go to out,
// progress and warnings to progress.
func browsersCommand(out, progress io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "browsers", Summary: "Install, list and remove browser builds",
		Commands: []program.Command[Config]{installBrowser(out, progress), listBrowsers(out, progress), removeBrowser(out)},
	}
}

// browsersDir returns the directory of installed builds.
func (c Config) browsersDir(dataDir string) string {
	return cmp.Or(c.BrowsersDir, filepath.Join(dataDir, "browsers"))
}

func (c Config) catalog() (*install.Catalog, error) {
	if c.organizationKey() == "" {
		return nil, errors.New("SVC_KEY is not set: the catalog needs an organization key")
	}
	roots, err := c.rootCAs()
	if err != nil {
		return nil, err
	}
	return install.NewCatalog(c.CloudURL, c.organizationKey(), roots)
}

func installBrowser(out, progress io.Writer) program.Command[Config] {
	var version string
	return program.Command[Config]{
		Name: "install", Summary: "Install a browser build from the cloud's catalog",
		Detail: "Installs into BROWSERS_DIR, or into DATA_DIR/browsers. A running worker finds the build\n" +
			"there. The build is launched once, headless, before it is listed. Requires SVC_KEY. An interrupted download is\n" +
			"resumed, by the next run too.",
		Args: []program.Arg{{Name: "VERSION", Doc: "A major version, for its newest build, or a full version", Value: &version}},
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			catalog, err := config.catalog()
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(config.browsersDir(config.DataDir))
			if err != nil {
				return err
			}
			i := install.Installer{
				Dir: dir, Source: catalog, Canary: canary{logger, config.noSandboxAllowed()},
				Notify: func(format string, args ...any) { _, _ = fmt.Fprintf(progress, format+"\n", args...) },
				Meter: func(label string, done, total int64) install.Meter {
					return program.NewProgress(progress, label, done, total)
				},
			}
			r, fresh, err := i.Install(ctx, version)
			if err != nil {
				return err
			}
			verb := "Installed"
			if !fresh {
				verb = "Already installed:"
			}
			_, err = fmt.Fprintf(out, "%s %s in %s\n", verb, r.Version, filepath.Join(dir, r.Version))
			return err
		},
	}
}

func listBrowsers(out, progress io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "list", Summary: "List the installed browser builds and, with SVC_KEY, those of the catalog",
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			dir, err := filepath.Abs(config.browsersDir(config.DataDir))
			if err != nil {
				return err
			}
			installed, err := builds.NewFinder(builds.FindOptions{
				Path: config.ChromiumPath, Dirs: []string{dir}, Log: logger,
			}).Find(ctx)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "INSTALLED\tENGINE\tHEADFUL\tDEVTOOLS\tEXTENSIONS\tPATH")
			for _, b := range installed {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", b.Version, b.Engine, yesNo(b.Headful), yesNo(b.DevTools), yesNo(b.Extensions), b.Path)
			}
			if err := w.Flush(); err != nil || config.organizationKey() == "" {
				return err
			}
			if err := listCatalog(ctx, config, installed, out); err != nil {
				_, _ = fmt.Fprintf(progress, "Failed to list the catalog: %v\n", err)
			}
			return nil
		},
	}
}

func listCatalog(ctx context.Context, config Config, installed []builds.Build, out io.Writer) error {
	catalog, err := config.catalog()
	if err != nil {
		return err
	}
	system, arch := install.Platform()
	offered, err := catalog.Releases(ctx, system, arch, 0)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\nIN THE CATALOG\tCHANNEL\tSIZE\tINSTALLED")
	for _, r := range offered {
		installed := slices.ContainsFunc(installed, func(b builds.Build) bool { return b.Version == r.Version })
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Version, r.Channel, program.Bytes(r.SizeBytes), yesNo(installed))
	}
	return w.Flush()
}

func removeBrowser(out io.Writer) program.Command[Config] {
	var version string
	return program.Command[Config]{
		Name: "remove", Summary: "Remove an installed browser build",
		Detail: "Removes only builds that were installed with this command, never the system's. Fails while a browser of the build\n" +
			"runs on this machine. Browsers in other containers are not detected: make sure that none uses the build.",
		Args: []program.Arg{{Name: "VERSION", Doc: "The full version, or the major version if only one build of it is installed", Value: &version}},
		Run: func(ctx context.Context, config Config, _ *slog.Logger) error {
			dir, err := filepath.Abs(config.browsersDir(config.DataDir))
			if err != nil {
				return err
			}
			removed, err := (&install.Installer{Dir: dir}).Remove(ctx, version)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "Removed %s\n", removed)
			return err
		},
	}
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// canary launches a build with its own launcher, independent of a running
// worker.
type canary struct {
	logger         *slog.Logger
	allowNoSandbox bool
}

// Try implements install.Canary.
func (c canary) Try(ctx context.Context, executable, scratch string) (version string, err error) {
	installed, err := builds.NewFinder(builds.FindOptions{Path: executable, Log: c.logger}).Find(ctx)
	if err != nil {
		return "", err
	}
	launcher, err := browser.NewLauncher(browser.Options{Dir: scratch, Log: c.logger, AllowNoSandbox: c.allowNoSandbox})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, launcher.Close(), os.RemoveAll(scratch)) }()
	running, err := launcher.Launch(ctx, browser.Spec{LaunchID: "canary", Build: installed[0], Headless: true})
	if err != nil {
		return "", err
	}
	return installed[0].Version, running.Kill(ctx)
}
