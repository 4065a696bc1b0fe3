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

// Serve connects a client, without asking for a password, to the upstream: pictures
// are forwarded unchanged, client messages pass the filter. It owns both connections.
// It returns why they ended, never nil, after both are closed and all goroutines have
// ended. A slow client slows the upstream down; nothing is buffered for it. Serve
// calls acted for each allowed key, pointer and clipboard message, but not for update
// requests.
func Serve(ctx context.Context, client net.Conn, up *Upstream, access Access, acted func()) error {
	end := func() {
		client.Close()
		_ = up.Close()
	}
	defer end()
	defer context.AfterFunc(ctx, end)()
	input := bufio.NewReaderSize(client, 4<<10)
	err := serverHandshake(client, input, up.init)
	if err == nil {
		err = relay(client, up, newFilter(input, up.conn, access, acted), end)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// relay forwards in both directions until one ends, then ends the other.
func relay(client net.Conn, up *Upstream, messages *filter, end func()) error {
	ended := make(chan error, 2)
	go func() { ended <- copyPicture(client, up.conn) }()
	go func() { ended <- messages.run() }()
	err := <-ended
	end()
	<-ended //nolint:errcheck // the error only reports the forced end
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

// serverHandshake performs the server's handshake: version 3.8, no security, and the
// upstream's ServerInit. The viewer has already been authorized with a token or
// ticket.
func serverHandshake(client net.Conn, input *bufio.Reader, init []byte) error {
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
		got, err := readMessage(input, len(s.expect))
		if err != nil {
			return err
		}
		if string(got) != s.expect {
			return protocolErrorf("the client sent %q, want %q", got, s.expect)
		}
	}
	if err := writeMessage(client, []byte{0, 0, 0, 0}); err != nil { // the security handshake succeeded
		return err
	}
	if _, err := readMessage(input, 1); err != nil { // the shared flag is ignored: the display is always shared
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
