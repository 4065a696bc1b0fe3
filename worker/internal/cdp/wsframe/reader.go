package wsframe

import (
	"bufio"
	"errors"
	"io"
)

// ErrTooBig is returned for a message above a Reader's limit.
var ErrTooBig = errors.New("the message is too big")

// Message is a complete message or a control frame. Raw contains its frames
// unchanged, including headers and masks.
type Message struct {
	Opcode byte // Text, Binary, Close, Ping or Pong
	Raw    []byte
}

// Control reports whether it is a control frame.
func (m Message) Control() bool { return m.Opcode >= Close }

// Payload returns the unmasked payload.
func (m Message) Payload() []byte {
	var clear []byte
	for rest := m.Raw; len(rest) > 0; {
		h, size, _ := ReadHeader(rest) // the Reader has already validated the header
		end := size + int(h.Payload)
		clear = h.Unmask(clear, rest[size:end], 0)
		rest = rest[end:]
	}
	return clear
}

// Reader splits a peer's stream into messages. It never returns an incomplete
// message.
type Reader struct {
	source     *bufio.Reader
	masked     bool
	limit      int
	opcode     byte
	message    []byte // frames of an incomplete message
	fragmented bool
}

// NewReader returns a Reader of frames, masked if they come from a client.
// limit is the maximum size of a message with its headers.
func NewReader(source io.Reader, masked bool, limit int) *Reader {
	return &Reader{source: bufio.NewReaderSize(source, readAhead), masked: masked, limit: limit}
}

// readAhead is the buffer size. Larger payloads are read directly into the
// message.
const readAhead = 16 << 10

// Next returns the next complete message or control frame. Control frames
// between fragments of a message are returned first. It returns ErrProtocol,
// ErrTooBig or an error of the connection.
func (r *Reader) Next() (Message, error) {
	for {
		h, size, err := r.header()
		if err != nil {
			return Message{}, err
		}
		if h.Masked != r.masked || !h.Control() && r.fragmented != (h.Opcode == Continuation) {
			return Message{}, ErrProtocol
		}
		if h.Control() {
			raw := make([]byte, size+int(h.Payload))
			if _, err := io.ReadFull(r.source, raw); err != nil {
				return Message{}, err
			}
			return Message{h.Opcode, raw}, nil
		}
		if h.Payload > int64(r.limit-size-len(r.message)) {
			return Message{}, ErrTooBig
		}
		if h.Opcode != Continuation {
			r.opcode = h.Opcode
		}
		if err := r.readPayload(size + int(h.Payload)); err != nil {
			return Message{}, err
		}
		if r.fragmented = !h.Final; h.Final {
			m := Message{r.opcode, r.message}
			r.message = nil
			return m, nil
		}
	}
}

func (r *Reader) header() (h Header, size int, err error) {
	for n := 2; size == 0; n++ {
		p, err := r.source.Peek(n)
		if err != nil {
			return Header{}, 0, err
		}
		if h, size, err = ReadHeader(p); err != nil {
			return Header{}, 0, err
		}
	}
	return h, size, nil
}

// readPayload reads n more bytes of the current message.
func (r *Reader) readPayload(n int) error {
	had := len(r.message)
	if had == 0 {
		r.message = make([]byte, n)
	} else {
		r.message = append(r.message, make([]byte, n)...)
	}
	_, err := io.ReadFull(r.source, r.message[had:])
	return err
}
