package rfb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"image"
	"io"
	"net"
)

// NewUpstream makes an upstream of any server.
func NewUpstream(conn net.Conn, init []byte) *Upstream { return &Upstream{conn: conn, init: init} }

// Filter moves a client's messages to the server, and tells of input.
func Filter(client io.Reader, server io.Writer, access Access, acted func()) error {
	return newFilter(bufio.NewReader(client), server, access, acted).run()
}

// Understood reads what a screencast's client says, and returns how many bytes
// of it are left, how many of its messages are input, and whether a picture in
// the format that it asked for has the length that it should.
func Understood(said []byte) (left, input int, rightFormat bool) {
	v, in := newClientState(), bufio.NewReaderSize(bytes.NewReader(said), len(said)+1)
	_, _ = in.Peek(1) // it is all in the buffer
	for ; in.Buffered() > 0; left = in.Buffered() {
		if v.next(in, func(any) { input++ }) != nil {
			break
		}
	}
	format, _, _ := v.preferences()
	pixels := format.append(nil, image.NewRGBA(image.Rect(0, 0, 3, 2)))
	return left, input, len(pixels) == 6*format.bits/8
}

// Handshake is a client's, with a server on that connection.
func Handshake(conn io.ReadWriter, password string) (init []byte, err error) {
	return clientHandshake(conn, password)
}

// LookUp returns what a keysym is to a page.
func LookUp(keysym uint32) (name, code string, keyCode int, text string) {
	k := lookupKey(keysym)
	return k.key, k.code, k.keyCode, k.text
}

// Size is the framebuffer's at the start, in pixels.
func (u *Upstream) Size() (width, height int) {
	return int(binary.BigEndian.Uint16(u.init)), int(binary.BigEndian.Uint16(u.init[2:]))
}
