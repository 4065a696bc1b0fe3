package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

// launchFlags are the flags of svc launch and svc run.
type launchFlags struct {
	profile, name, spec, state string
	headless                   bool
	record                     []string
	wait                       time.Duration
	set                        *pflag.FlagSet
}

func (f *launchFlags) define(c *cobra.Command) {
	f.set = c.Flags()
	f.set.StringVar(&f.profile, "profile", "", "the id of the `PROFILE`, or its name, for which svc asks the cloud")
	f.set.StringVar(&f.spec, "spec", "", "an ephemeral profile: the `JSON` of LaunchSpec, or @FILE")
	f.set.StringVar(&f.name, "name", "", "the `NAME` of the session")
	f.set.BoolVar(&f.headless, "headless", true, "whether the browser has no window; --headless=false gives it one")
	f.set.StringSliceVar(&f.record, "record", nil, "what is recorded: a list of video, events, frames, har and trace, as `PARTS`")
	f.set.StringVar(&f.state, "state", "", "the `FILE` with cookies and storage, of svc state save or Playwright")
	f.set.DurationVar(&f.wait, "wait", 0, "how long the launch may wait for a free slot, such as 2m")
	c.MarkFlagsMutuallyExclusive("profile", "spec")
}

func (f *launchFlags) options(ctx context.Context, a *app) (svc.LaunchOptions, error) {
	options := svc.LaunchOptions{ProfileID: f.profile, Wait: f.wait}
	if f.profile != "" && uuid.Validate(f.profile) != nil {
		found, err := a.findProfile(ctx, f.profile)
		if err != nil {
			return options, err
		}
		options.ProfileID = found.Id.String()
	}
	if f.spec != "" {
		options.Spec = &sharedapi.LaunchSpec{}
		if err := readJSON("--spec", f.spec, options.Spec); err != nil {
			return options, err
		}
	}
	if f.state != "" {
		options.Browser.State = &workerapi.StorageState{}
		if err := readJSON("--state", "@"+f.state, options.Browser.State); err != nil {
			return options, err
		}
	}
	if f.name != "" {
		options.Browser.Name = &f.name
	}
	if f.set.Changed("headless") {
		options.Browser.Headless = &f.headless
	}
	if f.set.Changed("record") {
		parts := sharedapi.RecordedParts{}
		for _, part := range f.record {
			parts = append(parts, sharedapi.RecordingPart(part))
		}
		options.Browser.Record = &parts
	}
	return options, nil
}

// readJSON decodes a value of a flag, or with @ the file that it names. Unknown fields are refused: a worker would not
// see them.
func readJSON(flag, text string, value any) error {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = string(content)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return &codeError{exitUsage, fmt.Errorf("%s is not valid: %w", flag, err)}
	}
	return nil
}

// launch starts a browser for the flags.
func (f *launchFlags) launch(a *app) (*svc.Session, error) {
	worker, err := a.worker()
	if err != nil {
		return nil, err
	}
	ctx, stop := within(launchLimit + f.wait)
	defer stop()
	options, err := f.options(ctx, a)
	if err != nil {
		return nil, err
	}
	return worker.Launch(ctx, options)
}

func (a *app) launchCommand() *cobra.Command {
	var flags launchFlags
	c := &cobra.Command{
		Use: "launch", Short: "Launch a browser and print its addresses", Args: cobra.NoArgs,
		Long:    "Launches a browser, which stays until svc end or the limits of its profile and of the worker.",
		Example: "  svc launch --profile \"Checkout in German\" --headless=false\n  svc launch --spec '{\"locale\": \"de-DE\"}' --record video,events",
		RunE:    func(*cobra.Command, []string) error { return flags.launchAndPrint(a) },
	}
	flags.define(c)
	return c
}

func (f *launchFlags) launchAndPrint(a *app) error {
	session, err := f.launch(a)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.emit(session.Info)
	}
	return a.table(addressRows(session))
}

// loadCommand is svc launch --state.
func (a *app) loadCommand() *cobra.Command {
	var flags launchFlags
	c := &cobra.Command{
		Use: "load FILE", Short: "Launch a browser with saved cookies and storage", Args: cobra.ExactArgs(1),
		Long: "Launches a browser, as svc launch does, with the cookies and the storage of a file of svc state save or Playwright.",
		RunE: func(_ *cobra.Command, args []string) error {
			flags.state = args[0]
			return flags.launchAndPrint(a)
		},
	}
	flags.define(c)
	_ = c.Flags().MarkHidden("state") // the argument
	return c
}

func addressRows(s *svc.Session) [][]string {
	return [][]string{
		{"Session", s.ID},
		{"CDP", s.WebSocketURL},
		{"Live view", deref(s.Info.ViewUrl, "-")},
		{"DevTools", deref(s.Info.DevtoolsFrontendUrl, "-")},
	}
}

func (a *app) runCommand() *cobra.Command {
	var flags launchFlags
	c := &cobra.Command{
		Use: "run [flags] [-- COMMAND [ARGUMENT...]]", Short: "Launch a browser for a command, and end it afterwards",
		Long: `Launches a browser, runs the command and ends the browser, also if the command fails or is interrupted. Without a command,
svc prints the addresses and ends the browser at Ctrl-C. The command gets these variables:

  BROWSER_WS           the CDP WebSocket of the browser, for Puppeteer, Playwright, chromedp and others
  CDP_URL              the address of the browser, for clients that ask for an http URL
  SELENIUM_REMOTE_URL  the WebDriver server of the worker, with the worker key. WebDriver clients cannot attach: each
                       session is another browser, which has an ephemeral profile and ends with the WebDriver session
  SVC_SESSION          the id of the session, for other commands of svc`,
		Example: "  svc run -- node test.mjs\n  svc run --record video --wait 2m -- pytest",
		RunE:    func(_ *cobra.Command, args []string) error { return a.run(&flags, args) },
	}
	flags.define(c)
	c.Flags().SetInterspersed(false)
	return c
}

func (a *app) run(flags *launchFlags, command []string) (err error) {
	if len(command) > 0 {
		if _, err := exec.LookPath(command[0]); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	signals := make(chan os.Signal, 8) // no signal ends this program before the browser
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	session, err := flags.launch(a)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		if _, failure := session.End(ctx); failure != nil {
			_, _ = fmt.Fprintf(a.errs, "svc: the session %s may still run, because it could not be ended: %s\n", session.ID, printable(failure.Error()))
			if err == nil {
				err = &endError{exitCode(failure)}
			}
		}
	}()
	if len(command) > 0 {
		return a.runWith(session, command, signals)
	}
	if a.json {
		err = a.emit(session.Info)
	} else {
		err = a.table(append(addressRows(session), []string{"", "Ctrl-C ends the browser."}))
	}
	if err != nil {
		return err
	}
	return awaitEnd(session, signals)
}

// pollInterval is how often svc run without a command looks whether the session has ended.
const pollInterval = 5 * time.Second

func awaitEnd(session *svc.Session, signals <-chan os.Signal) error {
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for {
		select {
		case <-signals:
			return nil
		case <-ticks.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), pollInterval) // a signal waits no longer
		info, err := session.Read(ctx)
		cancel()
		switch {
		case err != nil && exitCode(err) == exitNotFound:
			return err
		case err == nil && info.EndReason != nil:
			return fmt.Errorf("the session has ended: %s", *info.EndReason)
		}
	}
}

// runWith runs the command with the addresses of the browser.
func (a *app) runWith(session *svc.Session, command []string, signals <-chan os.Signal) error {
	settings, err := a.settings()
	if err != nil {
		return err
	}
	variables, err := browserVariables(session, settings)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.errs, "svc: watch the browser with svc open %s\n", session.ID)
	child := exec.Command(command[0], command[1:]...) //nolint:noctx // signals are passed on to it
	child.Env = append(os.Environ(), variables...)
	child.Stdin, child.Stdout, child.Stderr = a.input, a.out, a.errs
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case sent := <-signals:
			// A terminal sends Ctrl-C to the command as well, which would get it twice.
			if sent != os.Interrupt || !a.onTerminal() {
				_ = child.Process.Signal(sent) // it may just have ended
			}
		case err := <-ended:
			return commandResult(err)
		}
	}
}

func commandResult(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	const bySignal = 128 // as shells do
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &endError{bySignal + int(status.Signal())}
	}
	return &endError{exit.ExitCode()}
}

func (a *app) onTerminal() bool {
	for _, stream := range []any{a.input, a.out, a.errs} {
		if file, ok := stream.(*os.File); ok && isTerminal(file) {
			return true
		}
	}
	return false
}

// browserVariables returns the variables for the command.
func browserVariables(session *svc.Session, settings config) ([]string, error) {
	cdp, err := url.Parse(session.WebSocketURL)
	if err != nil {
		return nil, err
	}
	cdp.Scheme = strings.Replace(cdp.Scheme, "ws", "http", 1)
	before, _, _ := strings.Cut(cdp.Path, "/browsers/") // the worker may be behind a prefix
	cdp.Path = before + "/"
	driver, err := url.Parse(settings.Worker)
	if err != nil {
		return nil, err
	}
	driver.User = url.UserPassword("svc", settings.Key)
	driver = driver.JoinPath("wd", "hub")
	return []string{
		"BROWSER_WS=" + session.WebSocketURL, "CDP_URL=" + cdp.String(), "SELENIUM_REMOTE_URL=" + driver.String(), "SVC_SESSION=" + session.ID,
	}, nil
}

// readAll is the content of a file, - for standard input.
func (a *app) readAll(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.input)
	}
	return os.ReadFile(name)
}
