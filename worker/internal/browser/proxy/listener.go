package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/browser-svc/svc/worker/internal/host/peeruser"
)

const anyUser = -1

// listener accepts only local peers, after restrict only those of one user, and
// limits their number.
type listener struct {
	net.Listener
	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	conns *connSet
	log   *slog.Logger
	uid   atomic.Int64
}

func listen(open *connSet, log *slog.Logger) (*listener, error) {
	raw, err := new(net.ListenConfig).Listen(open.ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return newListener(raw, open, log), nil
}

func newListener(raw net.Listener, open *connSet, log *slog.Logger) *listener {
	l := &listener{Listener: raw, conns: open, log: log}
	l.ctx, l.stop = context.WithCancel(open.ctx)
	l.uid.Store(anyUser)
	return l
}

func (l *listener) port() int { return int(addrPort(l.Addr()).Port()) }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		if l.conns.clients.acquire(l.ctx) != nil {
			return nil, net.ErrClosed
		}
		raw, err := l.Listener.Accept()
		if err != nil {
			l.conns.clients.release()
			return nil, err
		}
		c, err := l.conns.add(raw, browser, l.conns.clients)
		if err != nil {
			return nil, err
		}
		// Checked after the registration, so that a concurrent restrict finds it.
		if l.allowsPeer(raw) {
			return c, nil
		}
		_ = c.Close()
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.stop()
	return l.Listener.Close()
}

func (l *listener) restrict(uid int) {
	l.uid.Store(int64(uid))
	l.conns.closeClients(l.allowsPeer)
}

func (l *listener) allowsPeer(c net.Conn) bool {
	if !addrPort(c.RemoteAddr()).Addr().IsLoopback() {
		return false
	}
	allowed := int(l.uid.Load())
	if allowed == anyUser {
		return true
	}
	uid, err := peeruser.Of(c)
	if err != nil || uid != allowed {
		l.log.Warn("refused local peer of another user", "uid", uid, "error", err)
		return false
	}
	return true
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
