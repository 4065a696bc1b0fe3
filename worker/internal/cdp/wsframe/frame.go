// Package wsframe reads and writes WebSocket frames (RFC 6455, 5.2) for relays, which
// forward the bytes of a frame unchanged.
package wsframe

import (
	"encoding/binary"
	"errors"
)

// Opcodes.
const (
	Continuation = 0x0
	Text         = 0x1
	Binary       = 0x2
	Close        = 0x8
	Ping         = 0x9
	Pong         = 0xA
)

// Statuses of a close frame (RFC 6455, 7.4.1). NoStatus means a close frame without a
// status.
const (
	Normal        = 1000
	GoingAway     = 1001
	ProtocolError = 1002
	NoStatus      = 1005
	Policy        = 1008
	TooBig        = 1009
)

// ErrProtocol is returned for an invalid frame.
var ErrProtocol = errors.New("not a WebSocket frame")

// Header is the header of a frame.
type Header struct {
	Final   bool
	Opcode  byte
	Masked  bool
	Key     [4]byte
	Payload int64 // bytes
}

// Control reports whether the frame is a control frame.
func (h Header) Control() bool { return h.Opcode >= Close }

// MaxHeader is the maximum length of a header, in bytes.
const MaxHeader = 14

// ReadHeader reads the header at the beginning of p. size is its length, or 0 if the
// header is incomplete. The only error is ErrProtocol.
func ReadHeader(p []byte) (h Header, size int, err error) {
	if len(p) < 2 {
		return Header{}, 0, nil
	}
	h = Header{Final: p[0]&0x80 != 0, Opcode: p[0] & 0x0F, Masked: p[1]&0x80 != 0, Payload: int64(p[1] & 0x7F)}
	size = 2
	switch h.Payload {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	keyAt := size
	if h.Masked {
		size += 4
	}
	if err := h.check(p[0]); err != nil {
		return Header{}, 0, err
	}
	if len(p) < size {
		return Header{}, 0, nil
	}
	switch keyAt {
	case 4:
		h.Payload = int64(binary.BigEndian.Uint16(p[2:]))
	case 10:
		h.Payload = int64(binary.BigEndian.Uint64(p[2:])) // check refuses a negative length
	}
	if h.Payload < 0 {
		return Header{}, 0, ErrProtocol
	}
	if h.Masked {
		copy(h.Key[:], p[keyAt:])
	}
	return h, size, nil
}

// check refuses reserved bits, because no extension is negotiated, unknown opcodes,
// and control frames that are too long or fragmented.
func (h Header) check(first byte) error {
	valid := h.Opcode <= Binary || h.Opcode >= Close && h.Opcode <= Pong
	if first&0x70 != 0 || !valid || h.Control() && (!h.Final || h.Payload > 125) {
		return ErrProtocol
	}
	return nil
}

// Unmask appends the unmasked bytes of p to dst. offset is the position of p in the
// frame's payload.
func (h Header) Unmask(dst, p []byte, offset int64) []byte {
	for i, b := range p {
		dst = append(dst, b^h.Key[(offset+int64(i))&3])
	}
	return dst
}

// FromServer returns an unfragmented frame of a server, which is not masked.
func FromServer(opcode byte, payload []byte) []byte {
	return append(appendHeader(nil, opcode, 0, len(payload)), payload...)
}

// FromClient returns an unfragmented frame of a client, masked with a zero key:
// masking protects only intermediaries (RFC 6455, 10.3), and there are none between
// the worker and its browsers.
func FromClient(opcode byte, payload []byte) []byte {
	out := appendHeader(nil, opcode, 0x80, len(payload))
	return append(append(out, 0, 0, 0, 0), payload...)
}

func appendHeader(out []byte, opcode, mask byte, n int) []byte {
	out = append(out, 0x80|opcode)
	switch {
	case n < 126:
		return append(out, mask|byte(n))
	case n <= 0xFFFF:
		return binary.BigEndian.AppendUint16(append(out, mask|126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(out, mask|127), uint64(n))
}

// ClosePayload returns the payload of a close frame; empty for NoStatus.
func ClosePayload(status uint16, reason string) []byte {
	if status == NoStatus {
		return nil
	}
	return append(binary.BigEndian.AppendUint16(nil, status), reason...)
}

// ReadClose parses the payload of a close frame.
func ReadClose(payload []byte) (status uint16, reason string) {
	if len(payload) < 2 {
		return NoStatus, ""
	}
	return binary.BigEndian.Uint16(payload), string(payload[2:])
}
