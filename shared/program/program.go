// Package program runs command-line programs: commands, help, configuration from
// the environment, logging and signal handling.
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

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/env"
	"github.com/browser-svc/svc/shared/fault"
)

// Logging is the logging configuration of every program.
type Logging struct {
	Level  slog.Level `env:"LOG_LEVEL" envDefault:"info" doc:"The log level: debug, info, warn or error."`
	Format string     `env:"LOG_FORMAT" envDefault:"text" doc:"The log format: text or json."`
}

// New returns a logger with this configuration.
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

// maskSecrets masks keys, tokens and passwords of URLs in all log attributes.
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

// Program is a command-line program. C is its configuration, see package env.
type Program[C any] struct {
	Name     string
	Summary  string
	Commands []Command[C]      // the first is the default
	Logging  func(C) Logging   // returns the logging configuration
	Environ  map[string]string // nil reads the process environment
	Out      io.Writer         // for help and version
	Err      io.Writer         // for errors and the log
}

// Main runs the command in args and returns the exit status: 0 on success, 1 if
// the command failed, 2 if args are invalid.
func (p Program[C]) Main(args []string) int {
	if len(args) == 1 && args[0] == certs.DecryptCommand { // of this program itself
		return certs.DecryptMain(os.Stdin, p.Out)
	}
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
		err = fmt.Errorf("a command is required")
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

// cutHelp removes a request for help from args: the word help at the start, or a
// help flag before "--".
func cutHelp(args []string) (words []string, help bool) {
	for i, arg := range args {
		switch {
		case arg == "--":
			return append(words, args[i:]...), help
		case arg == "-h" || arg == "--help" || arg == "-help" || i == 0 && arg == "help":
			help = true
		default:
			words = append(words, arg)
		}
	}
	return words, help
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
	context.AfterFunc(ctx, stop) // restores the default handling for the next signal
	logger.LogAttrs(ctx, slog.LevelDebug, "configuration", env.Redacted(config)...)
	return command.Run(ctx, config, logger)
}
