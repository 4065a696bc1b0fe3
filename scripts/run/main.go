// run is `make run`: it runs PostgreSQL, the cloud and a worker on this machine
// with a first user, organization, key, profile and browser, until Ctrl-C.
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

const help = `svc-run: run PostgreSQL, the cloud and a worker on this machine, with a first user, organization, key, profile
and browser, until Ctrl-C. Run it with make run, or in the repository root. It builds bin/svc-cloud, bin/svc-worker and
bin/svc first, and restarts the first two when they exit. The addresses and keys are in the file env of the data directory.

Usage: bin/svc-run [--verbose] [--help]

  --verbose    Also print the addresses of the browser, which contain tokens, and the password (make run VERBOSE=1)

The cloud is for local use only: anyone who can reach it can sign up (SIGN_UP=open) and choose a plan without payment
(BILLING_SELF_SERVICE=true).

Environment:
  CLOUD_PORT   The port of the cloud (default 8080)
  WORKER_PORT  The port of the worker (default 3000)
  PLAYWRIGHT   0: do not install playwright-core for /playwright, which is done on machines with Node.js
  SVC_DIR      The directory for data and logs (default .svc; as root, below /var/lib/svc if other users cannot access
               .svc)
`

func main() {
	verbose := false
	switch args := os.Args[1:]; {
	case len(args) == 1 && args[0] == "--verbose":
		verbose = true
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || args[0] == "-help" || args[0] == "help"):
		fmt.Print(help)
		return
	case len(args) > 0:
		fmt.Fprintf(os.Stderr, "svc-run: unknown argument %q. See svc-run --help.\n", args[0])
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := run(ctx, verbose); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "make run:", err)
		os.Exit(1)
	}
}

// The ports and the data directory can be changed, for example to run a second
// instance.
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

func run(ctx context.Context, verbose bool) (err error) {
	start := time.Now()
	if err := requirePorts(ctx); err != nil {
		return err
	}
	logf("Building svc-cloud, svc-worker and svc")
	if err := children.Build(ctx, "bin", "cloud", "worker", children.CommandLine); err != nil {
		return err
	}
	programs := &children.Group{Say: logf}
	defer func() { err = errors.Join(err, programs.Stop()) }()

	logf("Starting PostgreSQL and the cloud, for local use only: anyone can sign up and choose a plan")
	if err := programs.Start(ctx, program("cloud", cloudURL(),
		"PORT="+cloudPort(), "DATA_DIR="+cloudDataDir(), "SIGN_UP=open", "BILLING_SELF_SERVICE=true")); err != nil {
		return err
	}
	demo, err := newDemo(cloudURL(), workerURL())
	if err != nil {
		return err
	}
	if err := demo.account(ctx); err != nil {
		return err
	}
	installPlaywright(ctx)
	logf("Starting the worker")
	if err := programs.Start(ctx, program("worker", workerURL(),
		"PORT="+workerPort(), "DATA_DIR="+workerDataDir(), "SVC_CLOUD_URL="+cloudURL(),
		"ALLOWED_HOSTS="+setting("ALLOWED_HOSTS", "127.0.0.0/8,[::1]"), // developers test servers on this machine
		"SVC_KEY="+demo.state.OrganizationKey, "API_KEY="+demo.state.WorkerKey)); err != nil {
		return err
	}
	if err := demo.profile(ctx); err != nil {
		return err
	}
	logf("Launching a browser%s", demo.limits(ctx))
	session, err := demo.launch(ctx)
	if err != nil {
		return err
	}
	link, err := demo.signInLink(ctx)
	if err != nil {
		return err
	}
	if err := demo.writeEnvironment(); err != nil {
		return err
	}
	if verbose {
		demo.printAddresses(session)
	}
	demo.print(session, link, time.Since(start))
	programs.Supervise(ctx)
	return nil
}

func cloudDataDir() string  { return filepath.Join(dataDir(), "cloud") }
func workerDataDir() string { return filepath.Join(dataDir(), "worker") }

// requirePorts returns an error if a port is in use. Otherwise the requests would go
// to another program.
func requirePorts(ctx context.Context) error {
	if cloudPort() == workerPort() {
		return fmt.Errorf("CLOUD_PORT and WORKER_PORT are both %s: set one of them to another port", cloudPort())
	}
	for _, each := range [][2]string{{"CLOUD_PORT", cloudPort()}, {"WORKER_PORT", workerPort()}} {
		if err := children.RequireFree(ctx, each[1]); err != nil {
			return fmt.Errorf("%w: stop the program that uses it, or set %s to another port", err, each[0])
		}
	}
	return nil
}

// program returns a program with a new log.
func program(name, address string, environment ...string) children.Program {
	log := filepath.Join(dataDir(), name+".log")
	_ = os.Remove(log)
	return children.Program{
		Name: name, Path: filepath.Join("bin", "svc-"+name), Log: log,
		Health: address + "/health", Environment: environment,
	}
}

func logf(format string, args ...any) { fmt.Printf("• "+format+"\n", args...) }
