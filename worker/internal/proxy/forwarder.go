// Package proxy is the browsers' only way out. Each is given the address of a
// Forwarder of its own, a plain HTTP proxy on loopback, which leads straight out
// or to an upstream proxy, and passes on nothing that a EgressPolicy denies.
//
// The credentials of an upstream are the Forwarder's: Chromium takes none on its
// command line, and none belong there. What an upstream does not carry fails;
// it is never tried without.
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
	connectTimeout = 45 * time.Second // slots a tunnel, with the proxy's own way to the destination
	headerTimeout  = time.Minute      // for a request's header; browsers connect ahead of need
	keepAlive      = 5 * time.Minute  // slots a connection without a request
)

// Forwarder is an HTTP proxy on loopback, without credentials, for the life of
// one launch. It is safe for concurrent use.
type Forwarder struct {
	log            *slog.Logger
	policy         *EgressPolicy
	releasePort    func() // its own port, once that is given up
	server         *http.Server
	listener       *listener
	movedListener  atomic.Pointer[listener] // slots MoveTo; nil before
	conns          *connSet
	direct         *route
	routing        atomic.Pointer[routing]
	serving        sync.WaitGroup
	upstreamWarned sync.Once // slots an upstream that failed
	denied         denials
	buffers        buffers
}

// Start begins to forward, straight out until SetUpstream says otherwise. It fails when
// no port is free. Close must follow.
func Start(wall *EgressPolicy, log *slog.Logger) (*Forwarder, error) {
	return startWithUpstream(newConnSet(wall), log)
}

func startWithUpstream(open *connSet, log *slog.Logger) (*Forwarder, error) {
	l, err := listen(open, log)
	if err != nil {
		return nil, fmt.Errorf("forward proxy: %w", err)
	}
	f := &Forwarder{log: log, policy: open.policy, listener: l, conns: open}
	reveal, err := f.policy.DenyPort(l.port())
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("forward proxy: %w", err)
	}
	f.releasePort = sync.OnceFunc(reveal)
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

// MoveTo has the Forwarder listen there from now on, and no longer at its Address:
// that is where the listener is in a network that only its launch is in. Whoever
// is there may use it, so that a Restrict changes nothing. Close closes it.
func (f *Forwarder) MoveTo(to net.Listener) {
	l := newListener(to, f.conns, f.log)
	f.movedListener.Store(l)
	_ = f.listener.Close()
	f.releasePort() // whoever listens at its Address now is somebody else
	f.serve(l)
}

// Address is what the browser is given: http://127.0.0.1:port.
func (f *Forwarder) Address() string { return "http://" + f.listener.Addr().String() }

// Counts returns how many bytes came from upstream proxies and went to them so
// far: all that their connections carried, handshakes included. What they sent
// to a connection that nobody read any more is not in, nor is what went straight
// out.
func (f *Forwarder) Counts() (in, out int64) {
	return f.conns.in.Load(), f.conns.out.Load()
}

// Restrict lets only processes of this user connect from now on, and ends the
// connections that others have. Without it any local process may use the
// Forwarder. A peer whose user can't be told is refused. It tells launches apart
// only where each has a user of its own: all browsers of a worker that is not
// root share the worker's, and each could use the others' Forwarders if it knew
// their ports.
func (f *Forwarder) Restrict(uid int) {
	if f.movedListener.Load() == nil {
		f.listener.restrict(uid)
	}
}

// Close ends the listener and every connection, tunnels included, and waits
// until all of them are done. Closing again is no error.
func (f *Forwarder) Close() {
	_ = f.listener.Close()
	if l := f.movedListener.Load(); l != nil {
		_ = l.Close()
	}
	f.serving.Wait()
	f.conns.close()
	f.releasePort()
}

// ServeHTTP takes the two forms of request that a proxy gets: CONNECT, and any
// other method with an absolute http URL.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tunnel := r.Method == http.MethodConnect
	if !tunnel && (r.URL.Scheme != "http" || r.URL.Host == "") {
		http.Error(w, "This is a proxy; it has no pages.", http.StatusBadRequest)
		return
	}
	target := r.Host
	if !tunnel && r.URL.Port() == "" {
		target = net.JoinHostPort(r.URL.Hostname(), "80")
	}
	host, port, err := splitTarget(target)
	if err != nil {
		http.Error(w, "The destination is not of the form host:port.", http.StatusBadRequest)
		return
	}
	by := f.routeTo(!tunnel, host, port)
	switch {
	case f.policy.denies(host, port), by.denies(r.Context(), host, port):
		f.deny(w, r.Host)
	case tunnel:
		f.tunnel(w, r, by)
	default:
		f.forwardPlain(w, r, by)
	}
}
