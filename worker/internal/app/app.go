// Package app is the svc-worker program: its commands and configuration, and
// the assembly of the worker's parts. No other package imports all of them.
package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// Main runs the program svc-worker and returns its exit status.
func Main(args []string) int {
	if len(args) > 0 && args[0] == sandbox.Command { // the first process of a sandbox
		return sandbox.Main()
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // leave memory to the browsers
	}
	return program.Program[Config]{
		Name:    "svc-worker",
		Summary: "runs browsers on this machine and gives clients access to drive and view them",
		Commands: []program.Command[Config]{
			{Name: "serve", Summary: "Serve the worker API", Run: Serve},
			browsersCommand(os.Stdout, os.Stderr),
			auditCommand(os.Stdout),
			playwrightCommand(os.Stdout),
			profilesCommand(os.Stdout),
			selftestCommand(os.Stdout),
			program.Health(func(c Config) (string, int) { return c.Host, c.Port }),
		},
		Logging: func(c Config) program.Logging { return c.Logging },
		Out:     os.Stdout, Err: os.Stderr,
	}.Main(args)
}

// Serve runs a worker until ctx is done. The worker then reports that it is not
// ready, serves requests for another SHUTDOWN_DELAY, lets running browsers
// continue for DRAIN_TIMEOUT without accepting launches, stops the browsers,
// reports their ends to the cloud and returns.
func Serve(ctx context.Context, config Config, logger *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(config.Host, strconv.Itoa(config.Port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	w, err := assemble(ctx, config, logger)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer w.close(logger)
	config.checkDescriptors(maxOpenFiles(), logger)
	if config.organizationKey() == "" {
		logger.WarnContext(ctx, "SVC_KEY is not set: only launches over /launch with the caller's key are accepted")
	}
	stopMetrics, err := config.Metrics.Start(ctx, w.metricsHandler(), logger)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer stopMetrics()
	defer w.startReporting(ctx, logger)()
	defer w.startWarmPool(ctx)()
	defer w.startFileSweep()()
	defer w.startAuditSweep()()
	defer w.startGarbageCollection(ctx)()
	defer w.startRecordingStore(ctx)()
	logger.InfoContext(ctx, "worker started", "address", listener.Addr().String(), "public", w.address.String(),
		"cloud", config.CloudURL, "machine", w.machine.ID, "boot", w.machine.BootID)
	debug.FreeOSMemory() // parsing the API documents needs far more memory than the result
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() {
		w.readiness.Shutdown(config.ShutdownDelay, nil)
		w.drain(config.DrainTimeout, logger)
		w.mcp.Close() // its streams would delay the end of the web server, as those of logs and files
		w.renders.Close()
		w.logs.Close()
		w.fileServer.Close()
		w.drainedAt = time.Now()
		stop()
	})()
	defer stop()
	err = httpd.Serve(serving, listener, w.web, w.options)
	w.shutdown(logger)
	return err
}
