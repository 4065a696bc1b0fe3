package rfb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Access is what a viewer may do.
type Access int

// The accesses. The zero value allows the least.
const (
	Watch   Access = iota // see the picture
	Control               // and use keyboard, pointer and clipboard
)

// Why a view ended. Serve returns one of these (wrapped), a *ProtocolError, or
// the cause of its context's end.
var (
	ErrClientGone = errors.New("rfb: the client has gone")
	ErrEnded      = errors.New("rfb: the browser's picture has ended")
)

// ProtocolError is a breach of the protocol by the client. The reason may be
// told to it.
type ProtocolError struct{ Reason string }

// Error implements error.
func (e *ProtocolError) Error() string { return "rfb: " + e.Reason }

func protocolErrorf(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// Messages of clients.
const (
	setPixelFormat     = 0
	setEncodings       = 2
	updateRequest      = 3
	keyEvent           = 4
	pointerEvent       = 5
	clientCutText      = 6
	continuousUpdates  = 150
	clientFence        = 248
	xvpMessage         = 250
	setDesktopSize     = 251
	qemuMessage        = 255
	qemuKey, qemuAudio = 0, 1 // the kinds of the last
)

// Encodings, and what clients announce as such.
const (
	encRaw                  = 0
	encTight                = 7
	encDesktopSize          = -223
	encQEMUKey              = -258
	encQEMUAudio            = -259
	encXVP                  = -309
	encExtendedMouseButtons = -316
	encExtendedClipboard    = -1063131698 // 0xC0A1E5CE
)

const protocolVersion = "RFB 003.008\n"

const (
	securityNone = 1
	securityVNC  = 2
)

// Upstream is an open RFB connection as its client sees it after the
// handshake. It must be served or closed.
type Upstream struct {
	conn   net.Conn
	init   []byte // the ServerInit message
	finish func() // waits for what serves it; may be nil
}

// Close ends the connection and what serves it. It may be called again.
func (u *Upstream) Close() error {
	err := u.conn.Close()
	if u.finish != nil {
		u.finish()
	}
	return err
}

// initLength is that of a ServerInit before the name: width, height, pixel
// format, and the name's length.
const initLength = 2 + 2 + 16 + 4

// maxName bounds the name of a desktop, in bytes.
const maxName = 4096

func readInit(r io.Reader) ([]byte, error) {
	init := make([]byte, initLength)
	if _, err := io.ReadFull(r, init); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(init[initLength-4:])
	if length > maxName {
		return nil, fmt.Errorf("the desktop's name has %d bytes", length)
	}
	init = append(init, make([]byte, length)...)
	_, err := io.ReadFull(r, init[initLength:])
	return init, err
}
