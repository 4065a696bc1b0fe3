package proxy

import (
	"log/slog"
	"net"
)

// StartWithLimits is Start with lower limits of connections.
func StartWithLimits(policy *EgressPolicy, clients, outbound int, log *slog.Logger) (*Forwarder, error) {
	open := newConnSet(policy)
	open.clients, open.outbound = make(semaphore, clients), make(semaphore, outbound)
	return startWithConns(open, log)
}

// StartWithResolver is Start with another resolver.
func StartWithResolver(policy *EgressPolicy, resolver *net.Resolver, log *slog.Logger) (*Forwarder, error) {
	open := newConnSet(policy)
	open.resolver = resolver
	return startWithConns(open, log)
}
