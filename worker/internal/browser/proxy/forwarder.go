// Package proxy is the egress of browsers. Each browser gets its own Forwarder, a
// plain HTTP proxy on loopback, which connects directly or through an upstream proxy
// and applies an EgressPolicy.
//
// The Forwarder holds the upstream's credentials: Chromium accepts none on its
// command line, and other processes could read them there. A request that the
// upstream cannot serve fails; it is never sent directly instead.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout    = 15 * time.Second // to the upstream proxy, its TLS handshake included
	connectTimeout = 45 * time.Second // of a tunnel, including the proxy's own connection
	headerTimeout  = time.Minute      // for a request's header; browsers preconnect
	keepAlive      = 5 * time.Minute  // of an idle connection
)

// Forwarder is an HTTP proxy on loopback, without credentials, for one launch. It is
// safe for concurrent use.
type Forwarder struct {
	log            *slog.Logger
	policy         *EgressPolicy
	releasePort    func() // allows its port again
	server         *http.Server
	listener       *listener
	movedListener  atomic.Pointer[listener] // set by MoveTo
	conns          *connSet
	direct         *route
	routing        atomic.Pointer[routing]
	terminator     atomic.Pointer[terminator] // nil without client certificates
	contexts       contextProxies
	serving        sync.WaitGroup
	upstreamWarned sync.Once // of a failed upstream
	denied         denials
	buffers        buffers
}

// Start starts a Forwarder with direct egress. It fails if no port is free. The
// caller must call Close.
func Start(policy *EgressPolicy, log *slog.Logger) (*Forwarder, error) {
	return startWithConns(newConnSet(policy), log)
}

func startWithConns(open *connSet, log *slog.Logger) (*Forwarder, error) {
	l, err := listen(open, log)
	if err != nil {
		return nil, fmt.Errorf("forward proxy: %w", err)
	}
	f := &Forwarder{log: log, policy: open.policy, listener: l, conns: open}
	release, err := f.policy.DenyPort(l.port())
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("forward proxy: %w", err)
	}
	f.releasePort = sync.OnceFunc(release)
	f.direct = f.newRoute(direct{open})
	f.routing.Store(&routing{})
	f.server = &http.Server{
		Handler:                      f,
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return open.ctx },
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  keepAlive,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	f.serve(l)
	return f, nil
}

func (f *Forwarder) serve(l *listener) {
	f.serving.Go(func() {
		if err := f.server.Serve(l); !errors.Is(err, net.ErrClosed) {
			f.log.Error("forward proxy stopped listening", "error", err)
		}
	})
}

// MoveTo serves this listener from now on instead of the Forwarder's address: the
// listener is in a network namespace that only its launch can use, and accepts
// connections at all addresses of its loopback network. Restrict has no effect
// afterwards. Close closes the listener.
func (f *Forwarder) MoveTo(listener net.Listener) {
	l := newListener(listener, f.conns, f.log)
	f.movedListener.Store(l)
	_ = f.listener.Close()
	f.releasePort() // another process may listen there now
	f.serve(l)
}

// Address returns the address for the browser: http://127.0.0.1:port.
func (f *Forwarder) Address() string { return "http://" + f.listener.Addr().String() }

// Counts returns the bytes received from and sent to upstream proxies so far,
// including handshakes. Unread bytes and direct traffic are not counted.
func (f *Forwarder) Counts() (bytesIn, bytesOut int64) {
	return f.conns.upstream.received.Load(), f.conns.upstream.sent.Load()
}

// Restrict accepts only processes of this user from now on and closes the
// connections of others. Without it, any local process can use the Forwarder. A peer
// whose user is unknown is refused. Launches are separated from each other only if
// each has its own user: the browsers of a worker without root share the worker's
// user, and could use each other's Forwarders.
func (f *Forwarder) Restrict(uid int) {
	if f.movedListener.Load() == nil {
		f.listener.restrict(uid)
	}
}

// Close closes the listener and every connection, including tunnels, and waits until
// all are done. It can be called again.
func (f *Forwarder) Close() {
	f.contexts.closeAll()
	_ = f.listener.Close()
	if l := f.movedListener.Load(); l != nil {
		_ = l.Close()
	}
	f.serving.Wait()
	f.conns.close()
	f.releasePort()
}

// ServeHTTP serves both kinds of proxy requests: CONNECT, and any other method with
// an absolute http URL.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tunnel := r.Method == http.MethodConnect
	if !tunnel && (r.URL.Scheme != "http" || r.URL.Host == "") {
		http.Error(w, "This is a proxy. Send a CONNECT request or an absolute http URL.", http.StatusBadRequest)
		return
	}
	target := r.Host
	if !tunnel && r.URL.Port() == "" {
		target = net.JoinHostPort(r.URL.Hostname(), "80")
	}
	host, port, err := splitTarget(target)
	if err != nil {
		http.Error(w, "The destination must have the form host:port.", http.StatusBadRequest)
		return
	}
	routing := f.routingAt(r.Context())
	if routing == nil {
		http.Error(w, "The browser context of this proxy has ended.", http.StatusBadGateway)
		return
	}
	via := f.routeTo(routing, !tunnel, host, port)
	rule := f.conns.limits.verdict(host, port)
	r = r.WithContext(withHost(r.Context(), f.conns.usage.host(host)))
	switch {
	case rule.Denied:
		f.denyByRule(w, r.Host, rule)
	case f.policy.denies(host, port):
		f.deny(w, r.Host, &f.policy.denied.requested)
	case via.denies(r.Context(), host, port):
		f.deny(w, r.Host, &f.policy.denied.resolved)
	case tunnel:
		f.tunnel(w, r, via)
	default:
		f.forwardPlain(w, r, via)
	}
}
