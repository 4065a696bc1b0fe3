package program_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/program"
)

// runGroup runs a program with a group of commands and returns the arguments of the
// command that ran.
func runGroup(args ...string) (status int, out, errs, given string) {
	var stdout, stderr bytes.Buffer
	var file, channel string
	var force bool
	status = program.Program[config]{
		Name: "prog", Summary: "does things", Environ: map[string]string{}, Out: &stdout, Err: &stderr,
		Logging: func(c config) program.Logging { return c.Logging },
		Commands: []program.Command[config]{
			{Name: "serve", Summary: "Serve", Run: func(context.Context, config, *slog.Logger) error { return nil }},
			{Name: "things", Summary: "Care for things", Commands: []program.Command[config]{
				{
					Name: "add", Summary: "Add a thing", Detail: "It may take a while.",
					Args: []program.Arg{{Name: "FILE", Doc: "Where the thing is", Value: &file}},
					Flags: func(f *flag.FlagSet) {
						f.StringVar(&channel, "channel", "stable", "The `CHANNEL` that it is for")
						f.BoolVar(&force, "force", false, "Do it anyway")
					},
					Run: func(context.Context, config, *slog.Logger) error {
						given = fmt.Sprintf("add %s %s %v", file, channel, force)
						return nil
					},
				},
				{Name: "list", Summary: "List the things", Run: func(context.Context, config, *slog.Logger) error {
					given = "list"
					return nil
				}},
			}},
		},
	}.Main(args)
	return status, stdout.String(), stderr.String(), given
}

func TestMain_GroupArgumentsAndFlags(t *testing.T) {
	for _, tc := range []struct {
		line   string
		status int
		given  string
		errs   string
	}{
		{"things list", 0, "list", ""},
		{"things add a.zip", 0, "add a.zip stable false", ""},
		{"things add a.zip --channel beta --force", 0, "add a.zip beta true", ""},
		{"things add -channel=beta a.zip", 0, "add a.zip beta false", ""},
		{"things add --force a.zip --channel beta", 0, "add a.zip beta true", ""},
		{"things add -- --force", 0, "add --force stable false", ""},
		{"things add -- --help", 0, "add --help stable false", ""},
		{"things add", 2, "", "prog things add: missing argument FILE. See prog things add --help."},
		{"things add a b", 2, "", `unexpected argument "b"`},
		{"things add a --colour", 2, "", "flag provided but not defined: -colour"},
		{"things add a --channel", 2, "", "flag needs an argument: -channel"},
		{"things", 2, "", "prog things: a command is required"},
		{"things drop", 2, "", `unknown command "things drop"`},
		{"serve --force", 2, "", "flag provided but not defined: -force"},
	} {
		status, _, errs, given := runGroup(strings.Fields(tc.line)...)
		if status != tc.status || given != tc.given || !strings.Contains(errs, tc.errs) {
			t.Errorf("%s: status %d, given %q, errors %q", tc.line, status, given, errs)
		}
	}
}

func TestMain_Help(t *testing.T) {
	for line, want := range map[string][]string{
		"--help":                 {"prog: does things", "Usage: prog [command]", "things   Care for things", "KEY"},
		"help":                   {"Usage: prog [command]"},
		"things --help":          {"Care for things.", "Usage: prog things COMMAND", "add   Add a thing"},
		"help things":            {"Usage: prog things COMMAND"},
		"things add --help":      {"Add a thing.", "Usage: prog things add FILE [flags]", "It may take a while.", "FILE  Where the thing is", "--channel CHANNEL  The CHANNEL that it is for (default stable)", "--force            Do it anyway\n", "Run prog --help for the environment variables.\n"},
		"help things add":        {"Usage: prog things add FILE [flags]"},
		"things add a.zip -h":    {"Usage: prog things add FILE [flags]"},
		"things unknown --help":  {"Usage: prog things COMMAND"},
		"things list --help now": {"Usage: prog things list\n"},
	} {
		status, out, errs, given := runGroup(strings.Fields(line)...)
		if status != 0 || errs != "" || given != "" {
			t.Errorf("%s: status %d, errors %q, ran %q", line, status, errs, given)
		}
		if strings.HasPrefix(line, "things") && strings.Contains(out, "KEY") {
			t.Errorf("%s repeats the variables of the program:\n%s", line, out)
		}
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s: %q is not in\n%s", line, part, out)
			}
		}
	}
	if status, _, errs, _ := runGroup("dance", "--help"); status != 2 || !strings.Contains(errs, `unknown command "dance"`) {
		t.Errorf("help for an unknown command: %d %q", status, errs)
	}
}

func TestProgress_PrintsTenthsWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	p := program.NewProgress(&out, "Downloading", 250, 1000)
	for range 75 {
		_, _ = p.Write(make([]byte, 10))
	}
	p.End()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 8 || !strings.HasPrefix(lines[0], "Downloading 30% of 1.0 kB, ") || !strings.HasPrefix(lines[7], "Downloading 100%") {
		t.Errorf("printed %q", lines)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1500: "1.5 kB", 348_000_000: "348.0 MB", 5_000_000_000_000: "5.0 TB"} {
		if got := program.Bytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
