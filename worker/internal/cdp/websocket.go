package cdp

import (
	"bytes"
	"context"

	"github.com/browser-svc/svc/shared/ws"
)

// OverWebSocket starts a connection over a WebSocket, one message a message. The
// connection owns the socket.
func OverWebSocket(socket *ws.Conn) *Conn {
	p := &messagePipe{socket: socket}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return New(p, p)
}

// messagePipe adapts a WebSocket to the stream of NUL-terminated messages of New.
type messagePipe struct {
	ctx    context.Context
	cancel context.CancelFunc
	socket *ws.Conn
	unread []byte
}

// Read implements io.Reader.
func (p *messagePipe) Read(buf []byte) (int, error) {
	if len(p.unread) == 0 {
		_, message, err := p.socket.Read(p.ctx)
		if err != nil {
			return 0, err
		}
		p.unread = append(message, 0)
	}
	n := copy(buf, p.unread)
	p.unread = p.unread[n:]
	return n, nil
}

// Write implements io.Writer.
func (p *messagePipe) Write(message []byte) (int, error) {
	return len(message), p.socket.Write(p.ctx, ws.Text, bytes.TrimSuffix(message, []byte{0}))
}

// Close implements io.Closer.
func (p *messagePipe) Close() error {
	p.cancel()
	return p.socket.CloseNow()
}
