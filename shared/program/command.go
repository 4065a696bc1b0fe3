package program

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/env"
)

// Command is a command of a program, or a group of commands. The first SIGINT or
// SIGTERM cancels its context; the second one ends the program at once.
type Command[C any] struct {
	Name     string
	Summary  string              // for the help; without a full stop
	Detail   string              // for the help of the command itself; optional
	Args     []Arg               // positional arguments, all required
	More     *[]string           // further arguments like the last one, set before Run; nil: none are allowed
	Flags    func(*flag.FlagSet) // defines the flags; optional
	Run      func(ctx context.Context, config C, logger *slog.Logger) error
	Commands []Command[C] // for a group, instead of Run
}

// Arg is one argument of a command.
type Arg struct {
	Name  string  // in capitals, such as FILE
	Doc   string  // for the help; without a full stop
	Value *string // set before Run
}

// parse parses the arguments and flags of the command. Flags may appear before,
// between and after the arguments; "--" ends the flags.
func (c Command[C]) parse(words []string) error {
	flags := c.flagSet()
	var values []string
	for len(words) > 0 {
		if err := flags.Parse(words); err != nil {
			return err
		}
		rest := flags.Args()
		if consumed := len(words) - len(rest); consumed > 0 && words[consumed-1] == "--" {
			values = append(values, rest...)
			break
		}
		if len(rest) == 0 {
			break
		}
		values, words = append(values, rest[0]), rest[1:]
	}
	if len(values) > len(c.Args) && c.More != nil {
		*c.More, values = values[len(c.Args):], values[:len(c.Args)]
	}
	if len(values) > len(c.Args) {
		return fmt.Errorf("unexpected argument %q", values[len(c.Args)])
	}
	if len(values) < len(c.Args) {
		return fmt.Errorf("missing argument %s", c.Args[len(values)].Name)
	}
	for i, value := range values {
		*c.Args[i].Value = value
	}
	return nil
}

func (c Command[C]) flagSet() *flag.FlagSet {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if c.Flags != nil {
		c.Flags(flags)
	}
	return flags
}

// findCommand resolves the words to a command. It returns the command, its path
// and the remaining words.
func findCommand[C any](commands []Command[C], words []string) (command Command[C], path []string, rest []string, err error) {
	for rest = words; len(rest) > 0; {
		i := slices.IndexFunc(commands, func(c Command[C]) bool { return c.Name == rest[0] })
		if i < 0 {
			return command, path, rest, fmt.Errorf("unknown command %q", strings.Join(append(slices.Clone(path), rest[0]), " "))
		}
		command, path, rest = commands[i], append(path, rest[0]), rest[1:]
		if commands = command.Commands; len(commands) == 0 {
			break
		}
	}
	return command, path, rest, nil
}

// help prints the help of the program, or of the command if path is not empty.
func (p Program[C]) help(command Command[C], path []string) {
	var b strings.Builder
	name := strings.Join(append([]string{p.Name}, path...), " ")
	group := command.Commands
	if len(path) == 0 {
		group = p.Commands
		fmt.Fprintf(&b, "%s: %s\n\n", p.Name, p.Summary)
	} else {
		fmt.Fprintf(&b, "%s.\n\n", command.Summary)
	}
	fmt.Fprintf(&b, "Usage: %s%s\n", name, command.usage(len(path) == 0))
	if command.Detail != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(command.Detail))
	}
	writeTable(&b, "Commands", p.commandRows(group, len(path) == 0))
	var args [][2]string
	for _, a := range command.Args {
		args = append(args, [2]string{a.Name, a.Doc})
	}
	writeTable(&b, "Arguments", args)
	writeTable(&b, "Flags", flagRows(command.flagSet()))
	switch {
	case len(path) == 0 || name == p.Name+" "+p.Commands[0].Name:
		fmt.Fprintf(&b, "\nEnvironment:\n%s", env.Usage[C]())
	case len(group) > 0:
		fmt.Fprintf(&b, "\nRun %s COMMAND --help for the help of a command.\n", name)
	default:
		fmt.Fprintf(&b, "\nRun %s --help for the environment variables.\n", p.Name)
	}
	_, _ = io.WriteString(p.Out, b.String())
}

func (c Command[C]) usage(isProgram bool) string {
	if isProgram {
		return " [command]"
	}
	if len(c.Commands) > 0 {
		return " COMMAND"
	}
	var b strings.Builder
	for _, a := range c.Args {
		b.WriteString(" " + a.Name)
	}
	if c.More != nil {
		b.WriteString(" ...")
	}
	if c.Flags != nil {
		b.WriteString(" [flags]")
	}
	return b.String()
}

func (p Program[C]) commandRows(group []Command[C], isProgram bool) [][2]string {
	var rows [][2]string
	for i, command := range group {
		note := ""
		if isProgram && i == 0 {
			note = " (the default)"
		}
		rows = append(rows, [2]string{command.Name, command.Summary + note})
	}
	if isProgram {
		rows = append(rows, [2]string{"version", "Print the version"})
	}
	return rows
}

// flagRows lists the flags for the help.
func flagRows(flags *flag.FlagSet) [][2]string {
	var rows [][2]string
	flags.VisitAll(func(f *flag.Flag) {
		kind, doc := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" {
			doc += " (default " + f.DefValue + ")"
		}
		rows = append(rows, [2]string{strings.TrimSpace("--" + f.Name + " " + kind), doc})
	})
	return rows
}

func writeTable(b *strings.Builder, title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	env.WriteRows(b, rows)
}
