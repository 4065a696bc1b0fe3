package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

const anyUser = -1

// listener accepts local peers only and, once restricted, those of one user; and
// as many at once as there are places.
type listener struct {
	net.Listener
	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	conns *conns
	log   *slog.Logger
	uid   atomic.Int64
}

func listen(open *conns, log *slog.Logger) (*listener, error) {
	raw, err := new(net.ListenConfig).Listen(open.ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return newListener(raw, open, log), nil
}

func newListener(raw net.Listener, open *conns, log *slog.Logger) *listener {
	l := &listener{Listener: raw, conns: open, log: log}
	l.ctx, l.stop = context.WithCancel(open.ctx)
	l.uid.Store(anyUser)
	return l
}

func (l *listener) port() int { return int(addrPort(l.Addr()).Port()) }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		if l.conns.clients.take(l.ctx) != nil {
			return nil, net.ErrClosed
		}
		raw, err := l.Listener.Accept()
		if err != nil {
			l.conns.clients.free()
			return nil, err
		}
		c, err := l.conns.add(raw, browser, l.conns.clients)
		if err != nil {
			return nil, err
		}
		// Checked when registered: a restriction set meanwhile finds it.
		if l.welcome(raw) {
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
	l.conns.breakClients(l.welcome)
}

func (l *listener) welcome(c net.Conn) bool {
	peer, own := addrPort(c.RemoteAddr()), addrPort(c.LocalAddr())
	if !peer.Addr().IsLoopback() {
		return false
	}
	allowed := int(l.uid.Load())
	if allowed == anyUser {
		return true
	}
	uid, err := userOf(peer, own)
	if err != nil || uid != allowed {
		l.log.Warn("forward proxy refused a local peer of another user", "uid", uid, "error", err)
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

// userOf finds who owns the end at peer of an established IPv4 connection on
// this machine, in the kernel's table of sockets; -1 with an error.
func userOf(peer, own netip.AddrPort) (uid int, err error) {
	const local, remote, state, user = 1, 2, 3, 7 // columns
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return -1, err
	}
	defer table.Close()
	peerCell, ownCell := socketCell(peer), socketCell(own)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		cells := strings.Fields(lines.Text())
		if len(cells) > user && cells[local] == peerCell && cells[remote] == ownCell && cells[state] == "01" {
			return strconv.Atoi(cells[user])
		}
	}
	if err := lines.Err(); err != nil {
		return -1, err
	}
	return -1, errors.New("its connection is gone")
}

// socketCell writes an IPv4 address as the kernel's table does.
func socketCell(a netip.AddrPort) string {
	ip := a.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), a.Port())
}
