package rfb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Access is the access of a viewer.
type Access int

// The accesses. The zero value allows the least.
const (
	Watch   Access = iota // may only view
	Control               // may also use keyboard, pointer and clipboard
)

// Errors of Serve, which returns one of these (wrapped), a *ProtocolError, or the
// cause of its context.
var (
	ErrClientGone = errors.New("rfb: the client has disconnected")
	ErrEnded      = errors.New("rfb: the browser's picture has ended")
)

// ProtocolError is a protocol violation by the client. The reason may be sent to the
// client.
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
	qemuKey, qemuAudio = 0, 1 // the kinds of QEMU messages
)

// serverCutText is a message of the server.
const serverCutText = 3

// Encodings and pseudo-encodings.
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

// Upstream is an open RFB connection after the client's handshake. The caller must
// call Serve or Close.
type Upstream struct {
	conn   net.Conn
	init   []byte // the ServerInit message
	finish func() // waits for the server's goroutines; may be nil
}

// Close closes the connection and ends its server. It may be called again.
func (u *Upstream) Close() error {
	err := u.conn.Close()
	if u.finish != nil {
		u.finish()
	}
	return err
}

// initLength is the length of a ServerInit message before the name: width, height,
// pixel format, and the name's length.
const initLength = 2 + 2 + 16 + 4

// maxName is the maximum length of the name of a desktop, in bytes.
const maxName = 4096

func readInit(r io.Reader) ([]byte, error) {
	init := make([]byte, initLength)
	if _, err := io.ReadFull(r, init); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(init[initLength-4:])
	if length > maxName {
		return nil, fmt.Errorf("the desktop's name is too long: %d bytes", length)
	}
	init = append(init, make([]byte, length)...)
	_, err := io.ReadFull(r, init[initLength:])
	return init, err
}
