package program

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/browser-svc/svc/shared/env"
)

// Command is one thing that a program does, or a group of them. Its context
// ends with the first SIGINT or SIGTERM; a second one ends the program at once.
type Command[C any] struct {
	Name     string
	Summary  string              // in the help; without a full stop
	Detail   string              // more, in the command's own help; may be empty
	Args     []Arg               // what follows the name, in order; all of it is required
	Flags    func(*flag.FlagSet) // declares the flags; nil has none
	Run      func(ctx context.Context, config C, logger *slog.Logger) error
	Commands []Command[C] // a group has these instead of Run
}

// Arg is one argument of a command.
type Arg struct {
	Name  string  // in capitals, such as FILE
	Doc   string  // in the help; without a full stop
	Value *string // where it goes before Run
}

// parse gives the command what follows its name. Flags may stand before, after
// and between the arguments; after "--" nothing is a flag.
func (c Command[C]) parse(words []string) error {
	flags := c.flagSet()
	var values []string
	for len(words) > 0 {
		if err := flags.Parse(words); err != nil {
			return err
		}
		rest := flags.Args()
		if at := len(words) - len(rest); at > 0 && words[at-1] == "--" {
			values = append(values, rest...)
			break
		}
		if len(rest) == 0 {
			break
		}
		values, words = append(values, rest[0]), rest[1:]
	}
	if len(values) > len(c.Args) {
		return fmt.Errorf("%q is one word too many", values[len(c.Args)])
	}
	if len(values) < len(c.Args) {
		return fmt.Errorf("%s is missing", c.Args[len(values)].Name)
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

// findCommand follows the words into the groups. It returns the command, what it is
// called from the program on, and the words that follow.
func findCommand[C any](commands []Command[C], words []string) (command Command[C], path []string, rest []string, err error) {
	for rest = words; len(rest) > 0; {
		at := slices.IndexFunc(commands, func(c Command[C]) bool { return c.Name == rest[0] })
		if at < 0 {
			return command, path, rest, fmt.Errorf("%q is not a command", strings.Join(append(slices.Clone(path), rest[0]), " "))
		}
		command, path, rest = commands[at], append(path, rest[0]), rest[1:]
		if commands = command.Commands; len(commands) == 0 {
			break
		}
	}
	return command, path, rest, nil
}

// help describes the whole program, or the command when there is a path to it.
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
	if len(path) == 0 || len(group) == 0 {
		fmt.Fprintf(&b, "\nEnvironment:\n%s", env.Usage[C]())
	} else {
		fmt.Fprintf(&b, "\n%s COMMAND --help tells more about one.\n", name)
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

// flagRows lists flags as they are written on a command line.
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
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", row[0], row[1])
	}
	_ = w.Flush() // a strings.Builder does not fail
}
