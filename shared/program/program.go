// Package program is the frame of a command-line program: its commands, its
// help, its configuration from the environment, its log, and its end on a
// signal.
package program

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/browser-svc/svc/shared/env"
	"github.com/browser-svc/svc/shared/version"
)

// Logging is what every program's configuration has in common.
type Logging struct {
	Level  slog.Level `env:"LOG_LEVEL" envDefault:"info" doc:"The least that is logged: debug, info, warn or error."`
	Format string     `env:"LOG_FORMAT" envDefault:"text" doc:"How it is logged: text or json."`
}

// New returns the logger that the configuration asks for.
func (l Logging) New(out io.Writer) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: l.Level}
	switch l.Format {
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	default:
		return nil, fmt.Errorf("LOG_FORMAT must be text or json, not %q", l.Format)
	}
}

// Command is one thing that a program does. Its context ends with the first
// SIGINT or SIGTERM; a second one ends the program at once.
type Command[C any] struct {
	Name    string
	Summary string // in the help; without a full stop
	Run     func(ctx context.Context, config C, logger *slog.Logger) error
}

// Program is what Main runs. C is its configuration, see package env.
type Program[C any] struct {
	Name     string
	Summary  string
	Commands []Command[C]      // the first is the default
	Logging  func(C) Logging   // where C holds it
	Environ  map[string]string // nil is the process's
	Out      io.Writer         // of help and version
	Err      io.Writer         // of errors and the log
}

// Main runs the command that args name and returns the exit status: 0, 1 when
// it failed, 2 when it was not understood.
func (p Program[C]) Main(args []string) int {
	name := p.Commands[0].Name
	if len(args) > 0 {
		name = args[0]
	}
	switch {
	case slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "--help" || a == "help" }):
		p.help()
		return 0
	case name == "version" || name == "--version":
		_, _ = fmt.Fprintln(p.Out, p.Name, version.Version)
		return 0
	}
	at := slices.IndexFunc(p.Commands, func(c Command[C]) bool { return c.Name == name })
	if at < 0 || len(args) > 1 {
		_, _ = fmt.Fprintf(p.Err, "%s: %q is not a command. See %s --help.\n", p.Name, strings.Join(args, " "), p.Name)
		return 2
	}
	if err := p.run(p.Commands[at]); err != nil {
		_, _ = fmt.Fprintf(p.Err, "%s %s: %v\n", p.Name, name, err)
		return 1
	}
	return 0
}

func (p Program[C]) run(command Command[C]) error {
	config, err := env.Parse[C](p.Environ)
	if err != nil {
		return err
	}
	logger, err := p.Logging(config).New(p.Err)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal does what it does by default
	logger.LogAttrs(ctx, slog.LevelDebug, "configuration", env.Redacted(config)...)
	return command.Run(ctx, config, logger)
}

func (p Program[C]) help() {
	_, _ = fmt.Fprintf(p.Out, "%s: %s\n\nUsage: %s [command]\n\nCommands:\n", p.Name, p.Summary, p.Name)
	for i, command := range p.Commands {
		note := ""
		if i == 0 {
			note = " (the default)"
		}
		_, _ = fmt.Fprintf(p.Out, "  %-10s %s%s\n", command.Name, command.Summary, note)
	}
	_, _ = fmt.Fprintf(p.Out, "  %-10s %s\n\nEnvironment:\n%s", "version", "Print the version", env.Usage[C]())
}
