package launchsock

import (
	"encoding/binary"
	"errors"
)

// Opcodes (RFC 6455, 5.2).
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// errProtocol is a frame that no WebSocket peer sends.
var errProtocol = errors.New("not a WebSocket frame")

// header is a frame's.
type header struct {
	final   bool
	opcode  byte
	masked  bool
	key     [4]byte
	payload int64 // bytes
}

func (h header) control() bool { return h.opcode >= opClose }

// maxHeader is the longest header, in bytes.
const maxHeader = 14

// readHeader reads the header that p begins with. size is its length, 0 while
// more of it has to come.
func readHeader(p []byte) (h header, size int, err error) {
	if len(p) < 2 {
		return header{}, 0, nil
	}
	h = header{final: p[0]&0x80 != 0, opcode: p[0] & 0x0F, masked: p[1]&0x80 != 0, payload: int64(p[1] & 0x7F)}
	size = 2
	switch h.payload {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	keyAt := size
	if h.masked {
		size += 4
	}
	if err := h.check(p[0]); err != nil {
		return header{}, 0, err
	}
	if len(p) < size {
		return header{}, 0, nil
	}
	switch keyAt {
	case 4:
		h.payload = int64(binary.BigEndian.Uint16(p[2:]))
	case 10:
		h.payload = int64(binary.BigEndian.Uint64(p[2:])) // a negative one is refused below
	}
	if h.payload < 0 {
		return header{}, 0, errProtocol
	}
	if h.masked {
		copy(h.key[:], p[keyAt:])
	}
	return h, size, nil
}

// check refuses reserved bits, since no extension was agreed on, unknown
// opcodes, and control frames that are long or in parts.
func (h header) check(first byte) error {
	known := h.opcode <= opBinary || h.opcode >= opClose && h.opcode <= opPong
	if first&0x70 != 0 || !known || h.control() && (!h.final || h.payload > 125) {
		return errProtocol
	}
	return nil
}

// frame returns an unmasked frame in one piece, as a server sends it.
func frame(opcode byte, payload []byte) []byte {
	out := []byte{0x80 | opcode}
	switch n := len(payload); {
	case n < 126:
		out = append(out, byte(n))
	case n <= 0xFFFF:
		out = append(out, 126, byte(n>>8), byte(n))
	default:
		out = append(out, 127)
		out = binary.BigEndian.AppendUint64(out, uint64(n))
	}
	return append(out, payload...)
}

// unmask appends the payload p, which begins at this offset of its frame, in
// clear.
func (h header) unmask(to, p []byte, offset int64) []byte {
	for i, b := range p {
		to = append(to, b^h.key[(offset+int64(i))&3])
	}
	return to
}
