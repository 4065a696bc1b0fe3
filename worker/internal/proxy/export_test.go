package proxy

import (
	"log/slog"
	"net"
)

// StartWithLimits is Start with fewer places for connections.
func StartWithLimits(wall *EgressPolicy, clients, outward int, log *slog.Logger) (*Forwarder, error) {
	open := newConnSet(wall)
	open.clients, open.outbound = make(semaphore, clients), make(semaphore, outward)
	return startWithConns(open, log)
}

// StartWithResolver is Start with a resolver of its own.
func StartWithResolver(wall *EgressPolicy, resolver *net.Resolver, log *slog.Logger) (*Forwarder, error) {
	open := newConnSet(wall)
	open.resolver = resolver
	return startWithConns(open, log)
}
