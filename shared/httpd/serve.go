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

// Serve serves requests on ln until ctx is done. Then it stops accepting
// connections, waits up to Options.DrainTimeout for running requests and closes
// the remaining connections. The contexts of running requests stay valid while
// they drain. Serve returns nil after a clean stop, and an error if the listener
// failed or requests were cut off. It does not close hijacked connections.
//
// Serve owns ln and closes it.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, options Options) error {
	o := options.withDefaults()
	logger := o.Logger
	refuse := malformedResponder{logger: logger, document: o.Document, maxHeader: o.MaxHeaderBytes}.replaceRefusal
	limited := newLimitedListener(ln, boundConnections(o.MaxConnections, logger), logger, refuse)
	ln = limited
	server := &http.Server{
		Handler:           trackHandlers(handler),
		ReadHeaderTimeout: min(readHeaderTimeout, o.ReadTimeout),
		ReadTimeout:       o.ReadTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    o.MaxHeaderBytes,
		ConnContext:       withConn,
		ConnState:         limited.trackState,
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
	logger.InfoContext(ctx, "draining requests", "service", o.Name, "timeout", o.DrainTimeout)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.DrainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("drain timeout: requests cut off after %s: %w", o.DrainTimeout, errors.Join(err, server.Close()))
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	logger.InfoContext(ctx, "server stopped", "service", o.Name)
	return nil
}
