package rfb

import (
	"bufio"
	"io"
	"net"
)

// NewUpstream makes an upstream of any server.
func NewUpstream(conn net.Conn, init []byte) *Upstream { return &Upstream{conn: conn, init: init} }

// Filter moves a client's messages to the server.
func Filter(client io.Reader, server io.Writer, access Access) error {
	return newFilter(bufio.NewReader(client), server, access).run()
}

// LookUp returns what a keysym is to a page.
func LookUp(keysym uint32) (name, code string, keyCode int, text string) {
	k := lookUp(keysym)
	return k.key, k.code, k.keyCode, k.text
}
