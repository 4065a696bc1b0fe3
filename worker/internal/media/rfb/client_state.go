package rfb

import (
	"bufio"
	"encoding/binary"
	"io"
	"slices"
	"sync"
)

// Input messages of a viewer, for the inputDispatcher.
type (
	pointerMessage struct {
		buttons uint8
		x, y    uint16
	}
	keyMessage struct {
		down   bool
		keysym uint32
	}
	clipboardMessage struct{ text string }
)

// clientState is what the client of a screencast has sent so far.
type clientState struct {
	requested chan struct{} // signals a request for an update, or a clipboard message that is due

	mu      sync.Mutex
	pending bool // an update was requested
	full    bool // the request is not incremental: an already sent picture must be sent again
	format  pixelFormat
	resizes bool
	tight   bool

	clipboard outgoingClipboard
}

func newClientState() *clientState {
	return &clientState{requested: make(chan struct{}, 1), format: serverFormat}
}

// pendingRequest reports whether an update is requested, and whether an already sent
// picture must be sent again.
func (v *clientState) pendingRequest() (pending, again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pending, v.full
}

// requestServed records that the request is being answered.
func (v *clientState) requestServed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pending, v.full = false, false
}

// preferences returns the formats that the client accepts.
func (v *clientState) preferences() (format pixelFormat, resizes, tight bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.format, v.resizes, v.tight
}

// readMessages reads the client's messages until the connection ends or a message is
// invalid. It passes input to give, and waits neither for pictures nor for the page.
func (v *clientState) readMessages(conn io.Reader, give func(message any)) {
	input := bufio.NewReader(conn)
	for v.next(input, give) == nil {
		continue
	}
}

func (v *clientState) next(input *bufio.Reader, give func(message any)) error {
	kind, err := input.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case setPixelFormat:
		return v.setFormat(input)
	case setEncodings:
		return v.setEncodings(input)
	case updateRequest:
		return v.request(input)
	case pointerEvent:
		m, err := readMessage(input, 5)
		if err == nil {
			give(pointerMessage{m[0], binary.BigEndian.Uint16(m[1:]), binary.BigEndian.Uint16(m[3:])})
		}
		return err
	case keyEvent:
		m, err := readMessage(input, 7)
		if err == nil {
			give(keyMessage{m[0] != 0, binary.BigEndian.Uint32(m[3:])})
		}
		return err
	case clientCutText:
		return v.cutText(input, give)
	case continuousUpdates:
		_, err := readMessage(input, 9)
		return err
	case clientFence:
		m, err := readMessage(input, 8)
		if err == nil {
			_, err = readMessage(input, int(m[7]))
		}
		return err
	case qemuMessage: // a QEMU key event, which the server did not announce
		_, err := readMessage(input, 11)
		return err
	default:
		return protocolErrorf("unknown message type %d", kind)
	}
}

func (v *clientState) setFormat(input io.Reader) error {
	m, err := readMessage(input, 19)
	if err != nil {
		return err
	}
	format, err := parseFormat(m[3:])
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.format = format
	return nil
}

func (v *clientState) setEncodings(input io.Reader) error {
	m, err := readMessage(input, 3)
	if err != nil {
		return err
	}
	list, err := readMessage(input, 4*int(binary.BigEndian.Uint16(m[1:])))
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tight, v.resizes = false, false
	extended := false
	for part := range slices.Chunk(list, 4) {
		switch int32(binary.BigEndian.Uint32(part)) {
		case encTight:
			v.tight = true
		case encDesktopSize:
			v.resizes = true
		case encExtendedClipboard:
			extended = true
		}
	}
	v.clipboard.setExtended(extended)
	v.wake()
	return nil
}

// request reads an update request. The server always sends the complete picture.
func (v *clientState) request(input io.Reader) error {
	m, err := readMessage(input, 9)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.pending = true
	v.full = v.full || m[0] == 0
	v.mu.Unlock()
	v.wake()
	return nil
}

// wake makes the server look at what the client has requested.
func (v *clientState) wake() {
	select {
	case v.requested <- struct{}{}:
	default:
	}
}
