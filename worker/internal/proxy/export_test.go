package proxy

import (
	"log/slog"
	"net"
)

// StartAsking is Start with a resolver of its own.
func StartAsking(wall *Wall, resolver *net.Resolver, log *slog.Logger) (*Forwarder, error) {
	open := newConns(wall)
	open.resolver = resolver
	return start(open, log)
}
