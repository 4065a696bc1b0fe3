// svc is the command line for users of workers: it launches browsers, runs programs with them and moves their data.
// It uses only the public API.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	svc "github.com/browser-svc/svc/openapi/sdk/go"
	"github.com/browser-svc/svc/shared/program"
)

func main() { os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// The exit codes. The help lists them.
const (
	exitFailure      = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitLimit        = 4
	exitUnauthorized = 5
	exitUnreachable  = 6
	exitDifferences  = 7
	exitInterrupted  = 130
)

const about = `svc launches browsers on a worker, runs programs with them and moves their data.

The worker and its key come from --worker and --key-file, from SVC_WORKER and SVC_API_KEY, or from svc login.
Commands about profiles also need the cloud: --cloud and --token-file, or SVC_CLOUD_URL and SVC_TOKEN.

A SESSION is the name of a session, its id, or at least four characters of the start or the end of the id.

Exit codes:
  0  success
  1  failure
  2  wrong usage
  3  the session, file, profile or browser version does not exist
  4  a limit refuses it: the license, the profiles of the plan, a full worker, or too many requests
  5  the key or the token is missing, wrong or not allowed to do this
  6  the worker or the cloud cannot be reached, or does not accept launches
svc run exits with the code of its command, 128 and the number of the signal if a signal has ended it, and otherwise with
these codes.`

// app is what the commands share.
type app struct {
	input     *os.File
	out, errs io.Writer
	given     config  // from flags
	current   *config // the settings, once they were read: a key can come from a pipe
	keyFile   string
	tokenFile string
	json      bool
	started   bool // whether the arguments are valid
}

func execute(args []string, input *os.File, out, errs io.Writer) int {
	a := &app{input: input, out: out, errs: errs}
	root := a.root()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	code := exitCode(err)
	if !a.started {
		code = exitUsage
	}
	var ended *endError
	if errors.As(err, &ended) || code == exitInterrupted {
		return code
	}
	_, _ = fmt.Fprintf(errs, "svc: %s\n", printable(err.Error()))
	switch code {
	case exitUsage:
		_, _ = fmt.Fprintln(errs, "Run svc --help, or the command with --help.")
	case exitUnauthorized:
		_, _ = fmt.Fprintln(errs, "Check the key with svc doctor, or replace it with svc login.")
	case exitUnreachable:
		_, _ = fmt.Fprintln(errs, "svc doctor finds out why.")
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "svc", Short: "Launch browsers and work with them", Long: about, Version: program.Version,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetOut(a.out)
	root.SetErr(a.errs)
	flags := root.PersistentFlags()
	flags.StringVar(&a.given.Worker, "worker", "", "the `URL` of the worker")
	flags.StringVar(&a.keyFile, "key-file", "", "the `FILE` with the worker key; - for standard input")
	flags.StringVar(&a.given.Cloud, "cloud", "", "the `URL` of the cloud")
	flags.StringVar(&a.tokenFile, "token-file", "", "the `FILE` with an access token of the cloud; - for standard input")
	flags.BoolVar(&a.json, "json", false, "print JSON, for scripts")
	root.AddCommand(a.loginCommand(), a.runCommand(), a.launchCommand(), a.lsCommand(), a.showCommand(), a.endCommand(), a.openCommand(),
		a.logsCommand(), a.filesCommand(), a.recordCommand(), a.stateCommand(), a.profilesCommand(), a.applyAllCommand(), a.doctorCommand())
	a.noteStart(root)
	return root
}

// noteStart notes when a command runs: the errors before are those of wrong usage.
func (a *app) noteStart(c *cobra.Command) {
	for _, command := range c.Commands() {
		a.noteStart(command)
	}
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			a.started = true
			return run(c, args)
		}
	}
}

// group is a command that has only subcommands.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, args []string) error {
		return &codeError{exitUsage, errors.New("a command is required: see svc " + name + " --help")}
	}}
	c.AddCommand(commands...)
	return c
}

// The limits of a command's calls.
const (
	callLimit   = time.Minute
	launchLimit = 3 * time.Minute // and the time that the launch may wait
)

// within returns a context that ends after the limit and with the first signal; 0 is no limit. The second signal ends
// the program.
func within(limit time.Duration) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	if limit == 0 {
		return ctx, stop
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	return limited, func() { cancel(); stop() }
}

// codeError is an error with an exit code.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }

func (e *codeError) Unwrap() error { return e.err }

// endError is an exit code whose reason is already printed: by the command of svc run, or by svc doctor.
type endError struct{ code int }

func (e *endError) Error() string { return fmt.Sprintf("ended with %d", e.code) }

func exitCode(err error) int {
	var coded *codeError
	var ended *endError
	var refused *svc.Error
	var network *url.Error
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &ended):
		return ended.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &refused):
		return refusalCode(refused)
	case errors.As(err, &network):
		return exitUnreachable
	}
	return exitFailure
}

func refusalCode(e *svc.Error) int {
	switch e.Status {
	case http.StatusForbidden:
		if len(e.Details) > 0 && e.Details[0].Constraint != nil {
			return exitLimit // such as the number of profiles
		}
		return exitUnauthorized
	case http.StatusUnauthorized, http.StatusFailedDependency:
		return exitUnauthorized
	case http.StatusPaymentRequired, http.StatusTooManyRequests:
		return exitLimit
	case http.StatusServiceUnavailable:
		if len(e.Details) > 0 && e.Details[0].Constraint != nil {
			return exitLimit
		}
		return exitUnreachable
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return exitUnreachable
	}
	switch e.Code {
	case "RESOURCE_NOT_FOUND":
		return exitNotFound
	case "":
		return exitUnreachable // another server
	}
	return exitFailure
}
