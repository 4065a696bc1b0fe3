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

func main() {
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
	say("Building the two programs")
	if err := children.Build(ctx, "bin"); err != nil {
		return err
	}
	programs := &children.Group{Say: say}
	defer func() { err = errors.Join(err, programs.Stop()) }()

	say("Starting the cloud, with a PostgreSQL of its own (data and logs in %s)", dataDir())
	if err := programs.Start(ctx, program("cloud", cloudURL(),
		"PORT="+cloudPort(), "DATA_DIR="+dataDir()+"/cloud")); err != nil {
		return err
	}
	tour, err := openTour(cloudURL(), workerURL())
	if err != nil {
		return err
	}
	say("Signing in; making the user, the organization, its key and a profile where there is none yet")
	if err := tour.account(ctx); err != nil {
		return err
	}
	say("Starting the worker")
	if err := programs.Start(ctx, program("worker", workerURL(),
		"PORT="+workerPort(), "DATA_DIR="+dataDir()+"/worker", "SVC_CLOUD_URL="+cloudURL(),
		"SVC_KEY="+tour.state.OrganizationKey, "API_KEY="+tour.state.WorkerKey)); err != nil {
		return err
	}
	if err := tour.profile(ctx); err != nil {
		return err
	}
	say("Launching a browser")
	session, err := tour.launch(ctx)
	if err != nil {
		return err
	}
	tour.print(session, time.Since(begun))
	return programs.Wait(ctx)
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

func say(format string, args ...any) { fmt.Printf("• "+format+"\n", args...) }
