package intercept

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/wsframe"
)

const (
	// maxHeld limits what is kept of a client during a handover, in bytes. Then the
	// client's socket is not read any more.
	maxHeld = 256 << 10

	// closedPoll is how often a socket that is not read is checked for its end.
	closedPoll = 500 * time.Millisecond
)

// backlog keeps the frames that a client sends during a handover, unchanged and in
// order. It begins at the start of a message.
type backlog struct {
	raw       []byte
	message   int  // offset of the message that next belongs to
	next      int  // offset of the first frame that was not looked at
	inMessage bool // next continues a message
}

func (l *backlog) empty() bool  { return len(l.raw) == 0 }
func (l *backlog) add(p []byte) { l.raw = append(l.raw, p...) }

// take removes and returns everything.
func (l *backlog) take() []byte {
	raw := l.raw
	*l = backlog{}
	return raw
}

// pop removes and returns the next complete control frame or message to the worker.
func (l *backlog) pop() (m wsframe.Message, found recipient, err error) {
	for {
		h, size, err := wsframe.ReadHeader(l.raw[l.next:])
		if err != nil || size == 0 || h.Payload > int64(len(l.raw)-l.next-size) {
			return wsframe.Message{}, undecided, err
		}
		if !h.Masked || !h.Control() && l.inMessage != (h.Opcode == wsframe.Continuation) {
			return wsframe.Message{}, undecided, wsframe.ErrProtocol
		}
		end := l.next + size + int(h.Payload)
		if h.Control() {
			return wsframe.Message{Opcode: h.Opcode, Raw: l.cut(l.next, end)}, forBrowser, nil
		}
		if !l.inMessage {
			l.message = l.next
		}
		l.next, l.inMessage = end, !h.Final
		if l.inMessage {
			continue
		}
		if found := recipientOfMessage(l.raw[l.message:end]); found != forBrowser {
			l.next = l.message
			return wsframe.Message{Opcode: wsframe.Text, Raw: l.cut(l.message, end)}, found, nil
		}
	}
}

// cut removes and returns a part.
func (l *backlog) cut(from, to int) []byte {
	part := bytes.Clone(l.raw[from:to])
	l.raw = slices.Delete(l.raw, from, to)
	return part
}

// recipientOfMessage returns forWorker or aboutHandover for the frames of a message to
// the worker, and forBrowser for others.
func recipientOfMessage(raw []byte) recipient {
	if raw[0]&0x0F != wsframe.Text || len(raw) > 2*MaxWorkerMessage {
		return forBrowser
	}
	payload := wsframe.Message{Raw: raw}.Payload()
	if v := classify(payload[:min(len(payload), maxPrefix)]); v == forWorker || v == aboutHandover {
		return v
	}
	return forBrowser
}

// hold keeps what the client sends until the handover ends, and then processes it.
// Control frames and messages to the worker are handled at once.
func (b *ClientStream) hold(client net.Conn, buffer []byte) error {
	for {
		if err := b.handleHeld(); err != nil || b.held.empty() {
			return err
		}
		held := b.calls.Held()
		if held == nil {
			return b.process(b.held.take())
		}
		n, err := b.readHeld(held, client, buffer)
		b.held.add(buffer[:n])
		if err != nil && n == 0 {
			return err
		}
	}
}

// handleHeld handles the control frames of the client and its messages to the worker.
func (b *ClientStream) handleHeld() error {
	for {
		m, to, err := b.held.pop()
		switch {
		case err != nil:
			return err
		case to == undecided:
			return nil
		case m.Control():
			b.out = b.out[:0]
			b.forwardControl(m.Opcode, m.Raw)
			if m.Opcode == wsframe.Close {
				b.held.take() // nobody awaits the answers
			}
			err = b.flush()
		case to == aboutHandover:
			err = b.calls.answerHandover(m.Payload())
		case b.Answer != nil:
			err = b.Answer(m.Payload())
		default: // the browser refuses it
			b.out = append(b.out[:0], m.Raw...)
			err = b.flush()
		}
		if err != nil {
			return err
		}
	}
}

// readHeld reads from the client until the handover ends. Once much is kept, it only
// waits.
func (b *ClientStream) readHeld(held context.Context, client net.Conn, buffer []byte) (int, error) {
	if len(b.held.raw) >= maxHeld {
		return 0, awaitEnd(held, client)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(held, func() {
		defer close(interrupted)
		_ = client.SetReadDeadline(time.Unix(1, 0))
	})
	n, err := client.Read(buffer)
	if !stop() {
		<-interrupted
		_ = client.SetReadDeadline(time.Time{})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
	}
	return n, err
}

// awaitEnd waits until a handover ends. It returns io.EOF if the client closes its
// socket before, which the kernel reports unless it has no room for what the client has
// sent.
func awaitEnd(held context.Context, client net.Conn) error {
	tick := time.NewTicker(closedPoll)
	defer tick.Stop()
	for {
		select {
		case <-held.Done():
			return nil
		case <-tick.C:
			if IsClosed(client) {
				return io.EOF
			}
		}
	}
}

// IsClosed reports whether either side has closed a socket, without reading it.
func IsClosed(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	poll := []unix.PollFd{{Events: unix.POLLRDHUP}}
	err = raw.Control(func(fd uintptr) {
		poll[0].Fd = int32(fd)
		_, _ = unix.Poll(poll, 0)
	})
	return err != nil || poll[0].Revents != 0
}
