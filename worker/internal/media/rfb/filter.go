package rfb

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Limits of messages with a variable length.
const (
	maxEncodings = 1024
	maxFence     = 64        // bytes, the limit of the extension
	maxClipboard = 256 << 10 // bytes, the limit of the X server
)

// filter moves a client's messages to the upstream, each whole and unchanged,
// or not at all.
//
//	                    Watch    Control
//	0   SetPixelFormat  passes   passes
//	2   SetEncodings    without the extensions that the access has no use for
//	3   UpdateRequest   passes   passes
//	4   KeyEvent        dropped  passes
//	5   PointerEvent    dropped  passes
//	6   ClientCutText   dropped  passes up to 256 KiB
//	150 ContinuousUpdates, 248 Fence: pass
//	250 xvp, 251 SetDesktopSize: dropped
//	255 QEMU key        dropped  passes
//	255 QEMU audio      dropped  dropped
//
// Any other message ends the connection: its length is not known.
type filter struct {
	client  *bufio.Reader
	server  io.Writer
	access  Access
	onInput func() // called for each message of type 4, 5, 6 and 255 that passes
	buf     []byte // the part of the message that was read
}

func newFilter(client *bufio.Reader, server io.Writer, access Access, acted func()) *filter {
	return &filter{client: client, server: server, access: access, onInput: acted, buf: make([]byte, 0, 128)}
}

// run filters messages until the client or the upstream has ended or the client
// violates the protocol.
func (f *filter) run() error {
	for {
		if err := f.next(); err != nil {
			return err
		}
	}
}

func (f *filter) next() error {
	f.buf = f.buf[:0]
	if err := f.read(1); err != nil {
		return err
	}
	switch f.buf[0] {
	case setPixelFormat:
		return f.forward(20, true)
	case setEncodings:
		return f.encodings()
	case updateRequest, continuousUpdates:
		return f.forward(10, true)
	case keyEvent:
		return f.input(8)
	case pointerEvent:
		return f.input(6)
	case clientCutText:
		return f.cutText()
	case clientFence:
		return f.fence()
	case xvpMessage:
		return f.forward(4, false)
	case setDesktopSize:
		return f.desktopSize()
	case qemuMessage:
		return f.qemu()
	default:
		return protocolErrorf("unknown message type %d", f.buf[0])
	}
}

// read reads until buf has at least n bytes of the message.
func (f *filter) read(n int) error {
	have := len(f.buf)
	if n <= have {
		return nil
	}
	f.buf = slices.Grow(f.buf, n-have)[:n]
	if _, err := io.ReadFull(f.client, f.buf[have:]); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}

// forward reads a message of n bytes and forwards it if pass is set.
func (f *filter) forward(n int, pass bool) error {
	if err := f.read(n); err != nil {
		return err
	}
	if !pass {
		return nil
	}
	return f.write()
}

// input handles an input message of n bytes.
func (f *filter) input(n int) error {
	control := f.access == Control
	if err := f.forward(n, control); err != nil {
		return err
	}
	if control {
		f.onInput()
	}
	return nil
}

func (f *filter) write() error {
	if _, err := f.server.Write(f.buf); err != nil {
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	return nil
}

// skip discards the next n bytes.
func (f *filter) skip(n int64) error {
	if _, err := io.CopyN(io.Discard, f.client, n); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}

// encodings removes the extensions whose messages are dropped, and the extended mouse
// buttons, which would make pointer events longer.
func (f *filter) encodings() error {
	if err := f.read(4); err != nil {
		return err
	}
	count := int(binary.BigEndian.Uint16(f.buf[2:]))
	if count > maxEncodings {
		return protocolErrorf("too many encodings: %d", count)
	}
	if err := f.read(4 + 4*count); err != nil {
		return err
	}
	list := f.buf[:4]
	for part := range slices.Chunk(f.buf[4:], 4) {
		if f.allows(int32(binary.BigEndian.Uint32(part))) {
			list = append(list, part...) // overwrites only bytes that were already read
		}
	}
	binary.BigEndian.PutUint16(list[2:], uint16((len(list)-4)/4))
	f.buf = list
	return f.write()
}

func (f *filter) allows(encoding int32) bool {
	switch encoding {
	case encXVP, encExtendedMouseButtons, encQEMUAudio:
		return false
	case encQEMUKey, encExtendedClipboard:
		return f.access == Control
	default:
		return true
	}
}

// cutText handles the clipboard. The length is negative in the extended form. A
// clipboard above the limit is discarded without being buffered.
func (f *filter) cutText() error {
	if err := f.read(8); err != nil {
		return err
	}
	length := int64(int32(binary.BigEndian.Uint32(f.buf[4:])))
	if length < 0 {
		length = -length
	}
	if f.access != Control || length > maxClipboard {
		return f.skip(length)
	}
	return f.input(8 + int(length))
}

func (f *filter) fence() error {
	if err := f.read(9); err != nil {
		return err
	}
	length := int(f.buf[8])
	if length > maxFence {
		return protocolErrorf("fence of %d bytes is too long", length)
	}
	return f.forward(9+length, true)
}

// desktopSize drops the message: the launch determines the size of the window.
func (f *filter) desktopSize() error {
	if err := f.read(8); err != nil {
		return err
	}
	return f.skip(16 * int64(f.buf[6]))
}

func (f *filter) qemu() error {
	if err := f.read(4); err != nil {
		return err
	}
	switch kind := f.buf[1]; kind {
	case qemuKey:
		return f.input(12)
	case qemuAudio:
		if operation := binary.BigEndian.Uint16(f.buf[2:]); operation == 2 { // sets the format, which follows
			return f.forward(10, false)
		}
		return nil
	default:
		return protocolErrorf("unknown QEMU message type %d", kind)
	}
}
