package app

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	"github.com/browser-svc/svc/cloud/internal/browsers/catalog"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/program"
)

// releasesCommand manages the catalog of browser builds. It prints results to out
// and progress to progress.
func releasesCommand(out, progress io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "releases", Summary: "Manage the browser builds that workers can install",
		Commands: []program.Command[Config]{addRelease(out, progress), listReleases(out), removeRelease(out)},
	}
}

// buildFlags declares the flags that identify a build of a version.
func buildFlags(flags *flag.FlagSet, b *catalog.Build) {
	flags.StringVar(&b.OS, "os", "linux", "The operating `SYSTEM` of the build: linux, macos or windows")
	flags.StringVar(&b.Arch, "arch", "x86_64", "The `ARCHITECTURE` of the build: x86_64 or arm64")
}

func addRelease(out, progress io.Writer) program.Command[Config] {
	var file string
	var p catalog.Publication
	return program.Command[Config]{
		Name: "add", Summary: "Publish a browser build",
		Detail: "The archive must be a zip file with one browser: an executable named chrome, chromium, headless_shell,\n" +
			"chrome-headless-shell or chromium-browser, at most two directories deep, with its files beside it.",
		Args: []program.Arg{{Name: "FILE", Doc: "The archive", Value: &file}},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&p.Version, "version", "", "The full `VERSION` of the browser, such as 156.0.8078.79; required")
			buildFlags(flags, &p.Build)
			flags.StringVar(&p.Channel, "channel", "stable", "The release `CHANNEL` of the build: stable, beta, dev or canary")
		},
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			archive, err := os.Open(file)
			if err != nil {
				return err
			}
			defer archive.Close()
			info, err := archive.Stat()
			if err != nil {
				return err
			}
			bar := program.NewProgress(progress, "Storing", 0, info.Size())
			p.File, p.Progress = archive, bar
			return withCatalog(ctx, config, logger, func(builds *catalog.Service) error {
				r, err := builds.Publish(ctx, p)
				if err != nil {
					return err
				}
				bar.End()
				_, err = fmt.Fprintf(out, "Published %s, %s, SHA-256 %s\n", r.Build, program.Bytes(r.SizeBytes), r.SHA256)
				return err
			})
		},
	}
}

func listReleases(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "list", Summary: "List the published browser builds",
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			return withCatalog(ctx, config, logger, func(builds *catalog.Service) error {
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				_, _ = fmt.Fprintln(w, "VERSION\tCHANNEL\tOS\tARCH\tSIZE\tPUBLISHED\tSHA-256")
				for request := (page.Request{Page: 1, Limit: 100, SortBy: "version", Desc: true}); ; request.Page++ {
					found, err := builds.List(ctx, catalog.Filter{}, request)
					if err != nil {
						return err
					}
					for _, r := range found.Items {
						_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Version, r.Channel, r.OS, r.Arch,
							program.Bytes(r.SizeBytes), r.PublishedAt.UTC().Format(time.RFC3339), r.SHA256)
					}
					if !found.HasNext() {
						return w.Flush()
					}
				}
			})
		},
	}
}

func removeRelease(out io.Writer) program.Command[Config] {
	var b catalog.Build
	return program.Command[Config]{
		Name: "remove", Summary: "Remove a browser build from the catalog and the store",
		Detail: "Workers that have installed the build keep it.",
		Args:   []program.Arg{{Name: "VERSION", Doc: "The full version", Value: &b.Version}},
		Flags:  func(flags *flag.FlagSet) { buildFlags(flags, &b) },
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			return withCatalog(ctx, config, logger, func(builds *catalog.Service) error {
				r, err := builds.Remove(ctx, b)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(out, "Removed %s\n", r.Build)
				return err
			})
		},
	}
}

// withCatalog opens the catalog for one command, also while a cloud is running.
func withCatalog(ctx context.Context, config Config, logger *slog.Logger, use func(*catalog.Service) error) error {
	return withDatabase(ctx, config, logger, func(pools pools) error {
		builds, err := openCatalog(ctx, config, pools.tenants)
		if err != nil {
			return err
		}
		defer func() { _ = builds.Store.Close() }()
		return use(builds)
	})
}
