package intercept

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const (
	// maxHeld limits what is kept of a client during a handover, in bytes. Then the
	// client's socket is not read any more.
	maxHeld = 256 << 10

	// ClosedPoll is how often a socket that is not read is checked with IsClosed.
	ClosedPoll = 500 * time.Millisecond
)

// atMessageStart reports whether the next bytes begin a message or a control frame
// between messages.
func (b *clientStream) atMessageStart() bool { return !b.inPayload && !b.inMessage && len(b.head) == 0 }

// hold keeps what the client sends until the handover ends, and then processes it.
// Control frames and messages to the worker are handled at once.
func (b *clientStream) hold(client net.Conn, buffer []byte) error {
	for {
		if err := b.handleHeld(); err != nil || b.backlog.empty() {
			return err
		}
		handoverCtx := b.calls.Held()
		if handoverCtx == nil {
			return b.process(b.backlog.take())
		}
		n, err := b.readHeld(handoverCtx, client, buffer)
		b.backlog.add(buffer[:n])
		if err != nil && n == 0 {
			return err
		}
		buffer = grow(buffer, n)
	}
}

// handleHeld handles the control frames of the client and its messages to the worker.
func (b *clientStream) handleHeld() error {
	for {
		m, recipient, err := b.backlog.pop()
		switch {
		case err != nil:
			return err
		case recipient == undecided:
			return nil
		case m.Control():
			b.out = b.out[:0]
			b.forwardControl(m.Opcode, m.Raw)
			if m.Opcode == wsframe.Close {
				b.backlog.take() // the client does not wait for the answers
			}
			err = b.flush()
		case recipient == aboutHandover:
			err = b.calls.answerHandover(m.Payload())
		case b.answer != nil:
			err = b.calls.reply(b.answer(m.Payload()))
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
func (b *clientStream) readHeld(handoverCtx context.Context, client net.Conn, buffer []byte) (int, error) {
	if len(b.backlog.raw) >= maxHeld {
		return 0, awaitEnd(handoverCtx, client)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(handoverCtx, func() {
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
// socket before, which the kernel reports unless its buffer is full.
func awaitEnd(handoverCtx context.Context, client net.Conn) error {
	tick := time.NewTicker(ClosedPoll)
	defer tick.Stop()
	for {
		select {
		case <-handoverCtx.Done():
			return nil
		case <-tick.C:
			if IsClosed(client) {
				return io.EOF
			}
		}
	}
}

// forwardControl forwards a control frame.
func (b *clientStream) forwardControl(opcode byte, raw []byte) {
	b.out = append(b.out, raw...)
	if opcode == wsframe.Close {
		b.hasLeft.Store(true)
		if b.onClose != nil {
			b.onClose()
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
