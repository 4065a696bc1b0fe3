// Package proxy leads one browser to a proxy that wants credentials. Chromium
// takes none on its command line, and none belong there: it is given the
// address of a Forwarder, a plain HTTP proxy on loopback, which adds them, and
// which passes on nothing that a Policy denies.
//
// A Forwarder never reaches a destination by itself: what its upstream proxy
// does not carry fails.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"
)

const (
	dialTimeout    = 15 * time.Second // to the upstream proxy, its TLS handshake included
	connectTimeout = 45 * time.Second // of a tunnel, with the proxy's own way to the destination
	headerTimeout  = time.Minute      // for a request's header; browsers connect ahead of need
	keepAlive      = 5 * time.Minute  // of a connection without a request
)

// Forwarder is an HTTP proxy on loopback, without credentials, for the life of
// one launch. It is safe for concurrent use.
type Forwarder struct {
	log      *slog.Logger
	upstream *upstream
	listener *listener
	conns    *conns
	plain    *httputil.ReverseProxy
	serving  sync.WaitGroup
	warned   sync.Once // of an upstream that failed
	denied   denials
}

// Start begins to forward to the upstream proxy, which is not contacted before
// the first request. It fails when the upstream's description is not usable or
// no port is free; no error carries the credentials. Close must follow.
func Start(to Upstream, log *slog.Logger) (*Forwarder, error) {
	open := newConns()
	up, err := newUpstream(to, open)
	if err != nil {
		return nil, fmt.Errorf("forward proxy: %w", err)
	}
	l, err := listen(open, log)
	if err != nil {
		return nil, fmt.Errorf("forward proxy: %w", err)
	}
	f := &Forwarder{log: log, upstream: up, listener: l, conns: open}
	f.plain = f.newPlain()
	server := &http.Server{
		Handler:                      f,
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return open.ctx },
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  keepAlive,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	f.serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, net.ErrClosed) {
			log.Error("forward proxy stopped listening", "error", err)
		}
	})
	return f, nil
}

// Address is what the browser is given: http://127.0.0.1:port.
func (f *Forwarder) Address() string { return "http://" + f.listener.Addr().String() }

// Counts returns how many bytes came from the upstream proxy and went to it so
// far: all that its connections carried, handshakes included. What it sent to a
// connection that nobody read any more is not in.
func (f *Forwarder) Counts() (in, out int64) {
	return f.conns.in.Load(), f.conns.out.Load()
}

// Restrict lets only processes of this user connect from now on, and ends the
// connections that others have. Without it any local process may use the
// Forwarder. A peer whose user can't be told is refused.
func (f *Forwarder) Restrict(uid int) {
	f.listener.restrict(uid)
}

// Close ends the listener and every connection, tunnels included, and waits
// until all of them are done. Closing again is no error.
func (f *Forwarder) Close() {
	f.listener.Close()
	f.serving.Wait()
	f.conns.close()
}

// ServeHTTP takes the two forms of request that a proxy gets: CONNECT, and any
// other method with an absolute http URL.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.upstream.policy.Denies(hostOf(r.Host)):
		f.deny(w, r.Host)
	case r.Method == http.MethodConnect:
		f.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		f.exchange(w, r)
	default:
		http.Error(w, "This is a proxy; it has no pages.", http.StatusBadRequest)
	}
}

// fail answers for an upstream that did not do its part. The status is never
// 407, at which the browser would ask its user for a password; the text tells
// no addresses, since pages can read it.
func (f *Forwarder) fail(w http.ResponseWriter, err error) {
	status, text := http.StatusBadGateway, "The upstream proxy failed."
	var refused *refusedError
	switch {
	case errors.Is(err, ErrCredentials):
		text = "The upstream proxy refused the credentials."
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		status, text = http.StatusGatewayTimeout, "The upstream proxy did not answer in time."
	case errors.Is(err, ErrUnreachable):
		text = "The upstream proxy cannot be reached."
	case errors.As(err, &refused):
		text = "The upstream proxy opened no tunnel: it answered " + refused.answer + "."
	}
	level := slog.LevelDebug
	if errors.Is(err, ErrCredentials) || (errors.Is(err, ErrUnreachable) && !errors.Is(err, context.Canceled)) {
		f.warned.Do(func() { level = slog.LevelWarn })
	}
	f.log.Log(context.Background(), level, "upstream proxy failed", "error", err)
	http.Error(w, text, status)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
