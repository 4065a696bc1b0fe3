package rfb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"image"
	"io"
	"net"

	"github.com/browser-svc/svc/worker/internal/media/keys"
)

// NewUpstream returns an upstream for any server.
func NewUpstream(conn net.Conn, init []byte) *Upstream { return &Upstream{conn: conn, init: init} }

// Filter runs the filter between a client and a server. It calls acted for input.
func Filter(client io.Reader, server io.Writer, access Access, acted func()) error {
	return newFilter(bufio.NewReader(client), server, access, acted).run()
}

// Understood parses the messages of a screencast's client. It returns the number of
// unread bytes, the number of input messages, and whether a picture in the requested
// format has the expected length.
func Understood(sent []byte) (left, input int, rightFormat bool) {
	v, reader := newClientState(), bufio.NewReaderSize(bytes.NewReader(sent), len(sent)+1)
	_, _ = reader.Peek(1) // fills the buffer with all bytes
	for ; reader.Buffered() > 0; left = reader.Buffered() {
		if v.next(reader, func(any) { input++ }) != nil {
			break
		}
	}
	format, _, _ := v.preferences()
	pixels := format.append(nil, image.NewRGBA(image.Rect(0, 0, 3, 2)))
	return left, input, len(pixels) == 6*format.bits/8
}

// Handshake performs the client's handshake on a connection.
func Handshake(conn io.ReadWriter, password string) (init []byte, err error) {
	return clientHandshake(conn, password)
}

// LookUp returns the key that pages see for a keysym.
func LookUp(keysym uint32) (name, code string, keyCode int, text string) {
	k := keys.Lookup(keysym)
	return k.Name, k.Code, k.KeyCode, k.Text
}

// Size is the framebuffer's at the start, in pixels.
func (u *Upstream) Size() (width, height int) {
	return int(binary.BigEndian.Uint16(u.init)), int(binary.BigEndian.Uint16(u.init[2:]))
}
