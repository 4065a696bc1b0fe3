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
	"strings"
	"syscall"

	"github.com/browser-svc/svc/shared/env"
	"github.com/browser-svc/svc/shared/fault"
)

// Logging is what every program's configuration has in common.
type Logging struct {
	Level  slog.Level `env:"LOG_LEVEL" envDefault:"info" doc:"The least that is logged: debug, info, warn or error."`
	Format string     `env:"LOG_FORMAT" envDefault:"text" doc:"How it is logged: text or json."`
}

// New returns the logger that the configuration asks for.
func (l Logging) New(out io.Writer) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: l.Level, ReplaceAttr: maskSecrets}
	switch l.Format {
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	default:
		return nil, fmt.Errorf("LOG_FORMAT must be text or json, not %q", l.Format)
	}
}

// maskSecrets masks what looks like a key, a token or a password in a URL,
// whatever logs it.
func maskSecrets(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(fault.MaskSecrets(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(fault.MaskSecrets(err.Error()))
		}
	}
	return a
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
	words, wantsHelp := cutHelp(args)
	if !wantsHelp && len(words) == 0 {
		words = []string{p.Commands[0].Name}
	}
	if !wantsHelp && (words[0] == "version" || words[0] == "--version") {
		_, _ = fmt.Fprintln(p.Out, p.Name, Version)
		return 0
	}
	command, path, rest, err := findCommand(p.Commands, words)
	name := strings.Join(append([]string{p.Name}, path...), " ")
	switch {
	case wantsHelp && (err == nil || len(path) > 0 || len(words) == 0):
		p.help(command, path)
		return 0
	case err == nil && len(command.Commands) > 0:
		err = fmt.Errorf("which command?")
	case err == nil:
		err = command.parse(rest)
	}
	if err != nil {
		_, _ = fmt.Fprintf(p.Err, "%s: %v. See %s --help.\n", name, err, name)
		return 2
	}
	if err := p.run(command); err != nil {
		_, _ = fmt.Fprintf(p.Err, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// cutHelp takes a request for help out of the words: help before them all,
// or a flag anywhere before "--".
func cutHelp(args []string) (words []string, wanted bool) {
	for i, arg := range args {
		switch {
		case arg == "--":
			return append(words, args[i:]...), wanted
		case arg == "-h" || arg == "--help" || arg == "-help" || i == 0 && arg == "help":
			wanted = true
		default:
			words = append(words, arg)
		}
	}
	return words, wanted
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
