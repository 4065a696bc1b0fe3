package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/browser-svc/svc/gen/sharedapi"
	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

// findSession finds a session by its id, by the start or the end of its id, or by its name.
func (a *app) findSession(ctx context.Context, given string) (*svc.Session, error) {
	worker, err := a.worker()
	if err != nil {
		return nil, err
	}
	if uuid.Validate(given) == nil {
		return worker.Session(ctx, given)
	}
	sessions, err := worker.Sessions(ctx, true)
	if err != nil {
		return nil, err
	}
	return match(sessions, given)
}

// shortestPart is how much of an id is needed, so that an empty or truncated variable of a script means no session.
const shortestPart = 4

// match prefers names to parts of ids, and running sessions: names are used again.
func match(sessions []*svc.Session, given string) (*svc.Session, error) {
	found := preferRunning(sessions, func(s *svc.Session) bool { return given != "" && s.Info.Name != nil && *s.Info.Name == given })
	if len(found) == 0 && len(given) >= shortestPart {
		found = preferRunning(sessions, func(s *svc.Session) bool { return strings.HasPrefix(s.ID, given) || strings.HasSuffix(s.ID, given) })
	}
	switch len(found) {
	case 0:
		return nil, &codeError{exitNotFound, fmt.Errorf("no session %q: svc ls lists the running sessions", given)}
	case 1:
		return found[0], nil
	}
	return nil, &codeError{exitUsage, fmt.Errorf("%q fits %d sessions, such as %s and %s: give more of the id", given, len(found), found[0].ID, found[1].ID)}
}

// preferRunning returns the running sessions that match, or else the ended ones.
func preferRunning(sessions []*svc.Session, matches func(*svc.Session) bool) []*svc.Session {
	var running, ended []*svc.Session
	for _, s := range sessions {
		switch {
		case !matches(s):
		case s.Info.Status == sharedapi.SessionStatusRunning:
			running = append(running, s)
		default:
			ended = append(ended, s)
		}
	}
	if len(running) > 0 {
		return running
	}
	return ended
}

// completeSession completes ids of running sessions.
func (a *app) completeSession(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const limit = 2 * time.Second
	worker, err := a.worker()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, stop := within(limit)
	defer stop()
	sessions, _ := worker.Sessions(ctx, false) // without an answer, nothing is completed
	var ids []string
	for _, s := range sessions {
		ids = append(ids, cobra.CompletionWithDesc(s.ID, printable(strings.TrimSpace(s.Info.ProfileName+" "+deref(s.Info.Name, "")))))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// sessionCommand returns a command about one session.
func (a *app) sessionCommand(use, short string, limit time.Duration, run func(context.Context, *svc.Session) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " SESSION", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSession,
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := within(limit)
			defer stop()
			session, err := a.findSession(ctx, args[0])
			if err != nil {
				return err
			}
			return run(ctx, session)
		},
	}
}

func (a *app) lsCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "ls", Short: "List the running sessions", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		worker, err := a.worker()
		if err != nil {
			return err
		}
		ctx, stop := within(callLimit)
		defer stop()
		sessions, err := worker.Sessions(ctx, all)
		if err != nil {
			return err
		}
		if a.json {
			infos := []svc.SessionInfo{}
			for _, s := range sessions {
				infos = append(infos, s.Info)
			}
			return a.emit(infos)
		}
		return a.list(sessionRows(sessions))
	}}
	c.Flags().BoolVarP(&all, "all", "a", false, "also list the sessions that ended within the last hour")
	return c
}

func sessionRows(sessions []*svc.Session) [][]string {
	rows := [][]string{{"SESSION", "STATUS", "AGE", "ENDS IN", "BROWSER", "NAME", "PROFILE"}}
	for _, s := range sessions {
		info := s.Info
		status := string(info.Status)
		if info.EndReason != nil && string(*info.EndReason) != status {
			status += " (" + string(*info.EndReason) + ")"
		}
		if info.Handover != nil {
			status += " (needs a person)"
		}
		rows = append(rows, []string{s.ID, status, age(&info.StartedAt), age(info.ExpiresAt), browserName(info), deref(info.Name, "-"), info.ProfileName})
	}
	return rows
}

func browserName(info svc.SessionInfo) string {
	name := fmt.Sprintf("%s %d", info.Engine, info.BrowserVersion)
	if !info.Headless {
		name += ", window"
	}
	return name
}

func (a *app) showCommand() *cobra.Command {
	return a.sessionCommand("show", "Show a session and its addresses", callLimit, func(_ context.Context, s *svc.Session) error {
		if a.json {
			return a.emit(s.Info)
		}
		rows := [][]string{{"Session", s.ID}, {"Name", deref(s.Info.Name, "-")}, {"Status", string(s.Info.Status)},
			{"Profile", s.Info.ProfileName + " (" + s.Info.ProfileId.String() + ")"}, {"Browser", browserName(s.Info)},
			{"Started", s.Info.StartedAt.Local().Format(time.DateTime) + " (" + age(&s.Info.StartedAt) + " ago)"}}
		if s.Info.Recording != nil {
			rows = append(rows, []string{"Recording", string(s.Info.Recording.State)})
		}
		if s.Info.EndedAt != nil {
			return a.table(append(rows, []string{"Ended", s.Info.EndedAt.Local().Format(time.DateTime) + " (" + deref(s.Info.EndReason, "") + ")"}))
		}
		if s.Info.ExpiresAt != nil {
			rows = append(rows, []string{"Ends", "in " + age(s.Info.ExpiresAt) + " (" + deref(s.Info.ExpiresReason, "") + ")"})
		}
		return a.table(append(rows, addressRows(s)[1:]...))
	})
}

func (a *app) endCommand() *cobra.Command {
	return a.sessionCommand("end", "End a session", callLimit, func(ctx context.Context, s *svc.Session) error {
		info, err := s.End(ctx)
		switch {
		case err != nil:
			return err
		case info.DataSaved != nil && !*info.DataSaved:
			err = fmt.Errorf("the session has ended, but the data of the profile was not saved: %s", deref(info.DataNotSavedReason, "unknown"))
		}
		if a.json {
			return errors.Join(a.emit(info), err)
		}
		if err == nil {
			_, err = fmt.Fprintln(a.out, "Ended", s.ID)
		}
		return err
	})
}

func (a *app) openCommand() *cobra.Command {
	var readOnly, printOnly bool
	c := a.sessionCommand("open", "Open the live view in the web browser of this machine", callLimit, func(ctx context.Context, s *svc.Session) error {
		address, err := s.LiveView(ctx, readOnly)
		if err != nil {
			return err
		}
		return a.openLocally(ctx, address, printOnly)
	})
	c.Flags().BoolVar(&readOnly, "read-only", false, "allow no input")
	c.Flags().BoolVar(&printOnly, "print", false, "print the address, which works once")
	return c
}

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	c := a.sessionCommand("logs", "Print the console messages of the pages", 0, func(ctx context.Context, s *svc.Session) error {
		if !follow {
			limited, cancel := context.WithTimeout(ctx, callLimit)
			defer cancel()
			ctx = limited
		}
		for entry, err := range s.Logs(ctx, follow) {
			switch {
			case err != nil && follow && errors.Is(err, context.Canceled):
				return nil // Ctrl-C
			case err != nil:
				return err
			}
			if err := a.printEntry(entry); err != nil {
				return err
			}
		}
		return nil
	})
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the browser ends")
	c.Long = "Prints the console messages, exceptions and failed requests of the pages. The worker collects them from the first request on,\nor from the start of a launch with browser.logs. With --json, each line is an entry."
	return c
}

func (a *app) printEntry(entry svc.LogEntry) error {
	if a.json {
		return a.emitLine(entry)
	}
	place := ""
	if entry.Url != nil {
		place = " (" + *entry.Url
		if entry.Line != nil {
			place += fmt.Sprintf(":%d", *entry.Line)
		}
		place += ")"
	}
	line := printable(fmt.Sprintf("%s %-7s %s%s", entry.At.Local().Format("15:04:05.000"), entry.Level, entry.Text, place))
	_, err := fmt.Fprintln(a.out, strings.ReplaceAll(line, "\n", "\n  ")) // no line of a page looks like an entry
	return err
}

func (a *app) recordCommand() *cobra.Command {
	play := a.recordPageCommand("play", "Play the recording of a session in the web browser of this machine", func(ctx context.Context, s *svc.Session) (string, error) {
		if s.Info.Recording == nil {
			return "", &codeError{exitNotFound, errors.New("the session is not recorded: launch with --record video,events")}
		}
		return s.Recording(ctx)
	})
	trace := a.recordPageCommand("trace", "Show the trace of a session in the web browser of this machine", func(ctx context.Context, s *svc.Session) (string, error) {
		if s.Info.Recording == nil || !s.Info.Recording.Trace {
			return "", &codeError{exitNotFound, errors.New("the session has no trace: launch with --record trace")}
		}
		address, err := s.Trace(ctx)
		if err == nil && address == "" {
			err = &codeError{exitNotFound, errors.New("the worker is of an earlier version and has no trace viewer: update it")}
		}
		return address, err
	})
	return group("record", "Play and save recordings", play, trace, a.recordHARCommand(), a.recordScriptCommand())
}

// recordPageCommand opens a page with the recording of a session.
func (a *app) recordPageCommand(name, summary string, link func(context.Context, *svc.Session) (string, error)) *cobra.Command {
	var printOnly bool
	command := a.sessionCommand(name, summary, callLimit, func(ctx context.Context, s *svc.Session) error {
		address, err := link(ctx, s)
		if err != nil {
			return err
		}
		return a.openLocally(ctx, address, printOnly)
	})
	command.Flags().BoolVar(&printOnly, "print", false, "print the address, which works once")
	return command
}

func (a *app) recordHARCommand() *cobra.Command {
	return a.saveCommand("har", "Save the requests of a session as an HTTP archive (HAR)", func(ctx context.Context, s *svc.Session) (io.ReadCloser, error) {
		if s.Info.Recording == nil || !s.Info.Recording.Har {
			return nil, &codeError{exitNotFound, errors.New("the requests of the session are not recorded: launch with --record har")}
		}
		return s.HAR(ctx)
	})
}

func (a *app) recordScriptCommand() *cobra.Command {
	var language string
	save := a.saveCommand("script", "Save a script that does again what was done in a session", func(ctx context.Context, s *svc.Session) (io.ReadCloser, error) {
		if s.Info.Recording == nil || !s.Info.Recording.Trace {
			return nil, &codeError{exitNotFound, errors.New("the session has no trace: launch with --record trace")}
		}
		return s.Script(ctx, language)
	})
	save.Flags().StringVar(&language, "language", "playwright-ts", "the `LANGUAGE`: playwright-ts, playwright-py or selenium-py")
	return save
}

// saveCommand returns a command that saves a part of a recording.
func (a *app) saveCommand(name, short string, open func(context.Context, *svc.Session) (io.ReadCloser, error)) *cobra.Command {
	var output string
	save := a.sessionCommand(name, short, 0, func(ctx context.Context, s *svc.Session) error {
		part, err := open(ctx, s)
		if err != nil {
			return err
		}
		defer part.Close()
		if output == "" || output == "-" {
			_, err := io.Copy(a.out, part)
			return err
		}
		return saveFile(output, part)
	})
	save.Flags().StringVarP(&output, "output", "o", "", "the `FILE`, which only you can read; otherwise standard output")
	return save
}
