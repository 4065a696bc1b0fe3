package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
)

// Serve answers on ln until ctx is done, then stops accepting, gives running
// requests Options.DrainTimeout to finish and closes what is left. Requests
// keep a live context while they drain. It returns nil after a clean stop, an
// error when the listener failed or when requests had to be cut off. A hijacked
// connection is not its business: its handler's owner ends it.
//
// Serve owns ln and closes it.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, options Options) error {
	o := options.withDefaults()
	logger := o.Logger
	refuse := malformedResponder{logger: logger, document: o.Document, maxHeader: o.MaxHeaderBytes}.replaceRefusal
	ln = newLimitedListener(ln, o.MaxConnections, logger, refuse)
	server := &http.Server{
		Handler:           trackHandlers(handler),
		ReadHeaderTimeout: min(readHeaderTimeout, o.ReadTimeout),
		ReadTimeout:       o.ReadTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    o.MaxHeaderBytes,
		ConnContext:       withConn,
		ConnState:         markIdle,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	logger.InfoContext(ctx, "listening",
		"service", o.Name, "version", o.Version, "address", ln.Addr().String())

	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	logger.InfoContext(ctx, "draining", "service", o.Name, "timeout", o.DrainTimeout)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.DrainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("requests cut off after %s: %w", o.DrainTimeout, errors.Join(err, server.Close()))
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	logger.InfoContext(ctx, "stopped", "service", o.Name)
	return nil
}
