// run is `make run`: PostgreSQL, the cloud and a worker on this machine, with a
// first user, organization, key, profile and browser, until Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/browser-svc/svc/scripts/children"
)

const help = `svc-run: PostgreSQL, the cloud and a worker on this machine, with a first user, organization, key, profile and
browser, until Ctrl-C. It is what make run runs, from the repository's directory: it builds bin/svc-cloud and
bin/svc-worker first.

Usage: bin/svc-run [--help]

The cloud is a local demonstration: anybody who reaches it signs up (SIGN_UP=open), and organizations choose their
plans themselves (BILLING_SELF_SERVICE=true).

Environment:
  CLOUD_PORT   The port of the cloud (default 8080)
  WORKER_PORT  The port of the worker (default 3000)
  SVC_DIR      Where the data and logs are kept (default .svc here; of root, where other users can't reach that,
               below /var/lib/svc)
`

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || args[0] == "-help" || args[0] == "help"):
		fmt.Print(help)
		return
	case len(args) > 0:
		fmt.Fprintf(os.Stderr, "svc-run: %q is not understood. See svc-run --help.\n", args[0])
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "make run:", err)
		os.Exit(1)
	}
}

// Where things are. The ports can be set for a machine on which they are taken,
// and the directory of the data for a second set of them.
func cloudPort() string  { return setting("CLOUD_PORT", "8080") }
func workerPort() string { return setting("WORKER_PORT", "3000") }

func cloudURL() string  { return "http://localhost:" + cloudPort() }
func workerURL() string { return "http://localhost:" + workerPort() }

func setting(variable, otherwise string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return otherwise
}

func run(ctx context.Context) (err error) {
	begun := time.Now()
	if err := requirePorts(ctx); err != nil {
		return err
	}
	logf("Building the two programs")
	if err := children.Build(ctx, "bin"); err != nil {
		return err
	}
	programs := &children.Group{Say: logf}
	defer func() { err = errors.Join(err, programs.Stop()) }()

	logf("Starting the cloud, with a PostgreSQL of its own (data and logs in %s)", dataDir())
	logf("For this demonstration, anybody signs up and chooses a plan (SIGN_UP=open, BILLING_SELF_SERVICE=true)")
	if err := programs.Start(ctx, program("cloud", cloudURL(),
		"PORT="+cloudPort(), "DATA_DIR="+dataDir()+"/cloud", "SIGN_UP=open", "BILLING_SELF_SERVICE=true")); err != nil {
		return err
	}
	tour, err := newDemo(cloudURL(), workerURL())
	if err != nil {
		return err
	}
	logf("Signing in; making the user, the organization, its key and a profile where there is none yet")
	if err := tour.account(ctx); err != nil {
		return err
	}
	logf("Starting the worker")
	if err := programs.Start(ctx, program("worker", workerURL(),
		"PORT="+workerPort(), "DATA_DIR="+dataDir()+"/worker", "SVC_CLOUD_URL="+cloudURL(),
		"ALLOWED_HOSTS="+setting("ALLOWED_HOSTS", "127.0.0.0/8,[::1]"), // this machine's own servers are what a developer tests
		"SVC_KEY="+tour.state.OrganizationKey, "API_KEY="+tour.state.WorkerKey)); err != nil {
		return err
	}
	if err := tour.profile(ctx); err != nil {
		return err
	}
	logf("Launching a browser")
	session, err := tour.launch(ctx)
	if err != nil {
		return err
	}
	tour.print(session, time.Since(begun))
	return programs.Wait(ctx)
}

// requirePorts fails when somebody else listens where the cloud or the worker is to:
// all that follows would be done to them.
func requirePorts(ctx context.Context) error {
	if cloudPort() == workerPort() {
		return fmt.Errorf("the cloud and the worker can't both have port %s: set CLOUD_PORT or WORKER_PORT to another one", cloudPort())
	}
	for _, each := range [][2]string{{"CLOUD_PORT", cloudPort()}, {"WORKER_PORT", workerPort()}} {
		if err := children.RequireFree(ctx, each[1]); err != nil {
			return fmt.Errorf("%w: end what listens there, or set %s to another port", err, each[0])
		}
	}
	return nil
}

// program is one of ours, with a log of this run alone.
func program(name, address string, environment ...string) children.Program {
	log := filepath.Join(dataDir(), name+".log")
	_ = os.Remove(log)
	return children.Program{
		Name: name, Path: filepath.Join("bin", "svc-"+name), Log: log,
		Health: address + "/health", Environment: environment,
	}
}

func logf(format string, args ...any) { fmt.Printf("• "+format+"\n", args...) }
