package rfb

import (
	"bufio"
	"encoding/binary"
	"io"
	"slices"
	"sync"
)

// What a viewer does to the browser, as messages to its hand.
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

// viewer is what the client of a screencast has said so far.
type viewer struct {
	asked chan struct{} // it wants a picture

	mu      sync.Mutex
	wanted  bool // a picture
	again   bool // even one that it has seen
	format  pixelFormat
	resizes bool
	tight   bool
}

func newViewer() *viewer {
	return &viewer{asked: make(chan struct{}, 1), format: ownFormat}
}

// wants reports whether a picture is asked for, and whether an old one will do.
func (v *viewer) wants() (wanted, again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.wanted, v.again
}

// served notes that the request is being answered.
func (v *viewer) served() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wanted, v.again = false, false
}

// likes says how the client wants its pictures.
func (v *viewer) likes() (format pixelFormat, resizes, tight bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.format, v.resizes, v.tight
}

// read hears the client out until it ends or makes no sense. What is input is
// given away; nothing here waits for the picture or the page.
func (v *viewer) read(conn io.Reader, give func(message any)) {
	in := bufio.NewReader(conn)
	for v.next(in, give) == nil {
		continue
	}
}

func (v *viewer) next(in *bufio.Reader, give func(message any)) error {
	kind, err := in.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case setPixelFormat:
		return v.setFormat(in)
	case setEncodings:
		return v.setEncodings(in)
	case updateRequest:
		return v.request(in)
	case pointerEvent:
		m, err := hear(in, 5)
		if err == nil {
			give(pointerMessage{m[0], binary.BigEndian.Uint16(m[1:]), binary.BigEndian.Uint16(m[3:])})
		}
		return err
	case keyEvent:
		m, err := hear(in, 7)
		if err == nil {
			give(keyMessage{m[0] != 0, binary.BigEndian.Uint32(m[3:])})
		}
		return err
	case clientCutText:
		return cutText(in, give)
	case continuousUpdates:
		_, err := hear(in, 9)
		return err
	case clientFence:
		m, err := hear(in, 8)
		if err == nil {
			_, err = hear(in, int(m[7]))
		}
		return err
	case qemuMessage: // a key in another form, which was not announced
		_, err := hear(in, 11)
		return err
	default:
		return breach("a message of type %d is not understood here", kind)
	}
}

func (v *viewer) setFormat(in io.Reader) error {
	m, err := hear(in, 19)
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

func (v *viewer) setEncodings(in io.Reader) error {
	m, err := hear(in, 3)
	if err != nil {
		return err
	}
	list, err := hear(in, 4*int(binary.BigEndian.Uint16(m[1:])))
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tight, v.resizes = false, false
	for part := range slices.Chunk(list, 4) {
		switch int32(binary.BigEndian.Uint32(part)) {
		case encTight:
			v.tight = true
		case encDesktopSize:
			v.resizes = true
		}
	}
	return nil
}

// request: whatever part of the picture is asked for, all of it comes.
func (v *viewer) request(in io.Reader) error {
	m, err := hear(in, 9)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.wanted = true
	v.again = v.again || m[0] == 0
	v.mu.Unlock()
	select {
	case v.asked <- struct{}{}:
	default:
	}
	return nil
}

// cutText reads a clipboard in its plain form, Latin-1. The extended form was
// not announced.
func cutText(in *bufio.Reader, give func(message any)) error {
	m, err := hear(in, 7)
	if err != nil {
		return err
	}
	length := int64(int32(binary.BigEndian.Uint32(m[3:])))
	if length < 0 || length > maxClipboard {
		_, err := io.CopyN(io.Discard, in, max(length, -length))
		return err
	}
	raw, err := hear(in, int(length))
	if err != nil {
		return err
	}
	text := make([]rune, len(raw))
	for i, b := range raw {
		text[i] = rune(b)
	}
	give(clipboardMessage{string(text)})
	return nil
}
