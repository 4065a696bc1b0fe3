package proxy

import (
	"log/slog"
	"net"
)

// StartNarrow is Start with fewer places for connections.
func StartNarrow(wall *Wall, clients, outward int, log *slog.Logger) (*Forwarder, error) {
	open := newConns(wall)
	open.clients, open.outward = make(places, clients), make(places, outward)
	return start(open, log)
}

// StartAsking is Start with a resolver of its own.
func StartAsking(wall *Wall, resolver *net.Resolver, log *slog.Logger) (*Forwarder, error) {
	open := newConns(wall)
	open.resolver = resolver
	return start(open, log)
}
