package rfb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// greetTimeout is how long a client may take for its part of the handshake.
const greetTimeout = 10 * time.Second

// Serve plays the server towards a client, without asking it for a password,
// and connects it to the upstream: the picture goes out untouched, what comes
// in passes the filter. It owns both connections, and returns why they ended
// when both are closed and nothing runs any more; never nil. A client that
// reads slowly slows the upstream down; nothing is stored for it. acted is told
// of every key, pointer and clipboard that the client may send and does: asking
// for the picture is no such thing.
func Serve(ctx context.Context, client net.Conn, up *Upstream, access Access, acted func()) error {
	end := func() {
		client.Close()
		_ = up.Close()
	}
	defer end()
	defer context.AfterFunc(ctx, end)()
	in := bufio.NewReaderSize(client, 4<<10)
	err := serverHandshake(client, in, up.init)
	if err == nil {
		err = relay(client, up, newFilter(in, up.conn, access, acted), end)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// relay moves bytes both ways until one direction ends, then ends the other.
func relay(client net.Conn, up *Upstream, said *filter, end func()) error {
	ended := make(chan error, 2)
	go func() { ended <- copyPicture(client, up.conn) }()
	go func() { ended <- said.run() }()
	err := <-ended
	end()
	<-ended //nolint:errcheck // that it was ended
	return err
}

// copyPicture copies the picture to the client.
func copyPicture(client io.Writer, upstream io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, readErr := upstream.Read(buf)
		if n > 0 {
			if _, err := client.Write(buf[:n]); err != nil {
				return fmt.Errorf("%w: %w", ErrClientGone, err)
			}
		}
		if readErr != nil {
			return fmt.Errorf("%w: %w", ErrEnded, readErr)
		}
	}
}

// serverHandshake is the server's handshake: version 3.8, no security, since whoever
// gets here has shown a ticket, and the upstream's own ServerInit.
func serverHandshake(client net.Conn, in *bufio.Reader, init []byte) error {
	if err := client.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	steps := []struct {
		say    []byte
		expect string
	}{
		{[]byte(protocolVersion), protocolVersion},
		{[]byte{1, securityNone}, string([]byte{securityNone})},
	}
	for _, s := range steps {
		if err := writeMessage(client, s.say); err != nil {
			return err
		}
		got, err := readMessage(in, len(s.expect))
		if err != nil {
			return err
		}
		if string(got) != s.expect {
			return protocolErrorf("the client answers %q where %q belongs", got, s.expect)
		}
	}
	if err := writeMessage(client, []byte{0, 0, 0, 0}); err != nil { // security is done
		return err
	}
	if _, err := readMessage(in, 1); err != nil { // shared or not: it is shared
		return err
	}
	if err := writeMessage(client, init); err != nil {
		return err
	}
	if err := client.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}

func writeMessage(client io.Writer, message []byte) error {
	if _, err := client.Write(message); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}

func readMessage(client io.Reader, n int) ([]byte, error) {
	message := make([]byte, n)
	if _, err := io.ReadFull(client, message); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return message, nil
}
