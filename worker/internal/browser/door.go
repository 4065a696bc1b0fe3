package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"
)

const acceptPause = 100 * time.Millisecond // after a failure

// door is the debugging port, on this machine's loopback, of a browser that has
// a network of its own.
type door struct {
	listener net.Listener
	dial     func(context.Context) (net.Conn, error) // to the browser's server
	log      *slog.Logger
	ctx      context.Context // ends with the door
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// openDoor listens at a port, or at one that is free for 0.
func openDoor(port int, dial func(context.Context) (net.Conn, error), log *slog.Logger) (*door, error) {
	d := &door{dial: dial, log: log}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	listener, err := new(net.ListenConfig).Listen(d.ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		d.cancel()
		return nil, fmt.Errorf("debugging port: %w", err)
	}
	d.listener = listener
	d.work.Go(d.accept)
	return d, nil
}

func (d *door) port() int { return d.listener.Addr().(*net.TCPAddr).Port }

// accept goes on after failures, which are of the moment, such as a lack of
// descriptors.
func (d *door) accept() {
	for {
		conn, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			d.log.Warn("nobody can connect to a debugging port", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-d.ctx.Done():
				return
			}
			continue
		}
		d.work.Go(func() { d.lead(conn) })
	}
}

// lead takes a connection to the browser, and moves its bytes until both sides
// have ended, or the door does.
func (d *door) lead(conn net.Conn) {
	defer conn.Close()
	inside, err := d.dial(d.ctx)
	if err != nil {
		d.log.Warn("a connection to a debugging port leads nowhere", "error", err)
		return
	}
	defer inside.Close()
	defer context.AfterFunc(d.ctx, func() {
		conn.Close()
		inside.Close()
	})()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, inside}, {inside, conn}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // either may leave whenever it likes
			if half, ok := way[1].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}

// close ends the door and what goes through it.
func (d *door) close() {
	d.listener.Close()
	d.cancel()
	d.work.Wait()
}
