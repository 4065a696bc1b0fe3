package wsframe_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// chunkReader reads a few bytes at a time.
type chunkReader struct {
	rest []byte
	size int
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:min(c.size, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

const fuzzLimit = 1 << 12

// FuzzReader checks that reads of any size return the messages of a simple parser of
// RFC 6455 and end with the same error.
func FuzzReader(f *testing.F) {
	all, _ := stream()
	f.Add(all[:400], true, uint16(1))
	f.Add(all, true, uint16(5000))
	f.Add(all[:400], false, uint16(5000))
	long := wsframe.FromServer(wsframe.Text, make([]byte, 3000))
	long[0] &^= 0x80
	f.Add(append(long, wsframe.FromServer(wsframe.Continuation, make([]byte, 3000))...), false, uint16(100))
	f.Add([]byte{0x81, 0xFF, 0, 0, 0, 0, 0, 0, 1, 0, 9, 9, 9, 9, 'x'}, true, uint16(3))
	f.Add([]byte{0x82, 0x7F, 0x80, 0, 0, 0, 0, 0, 0, 0}, false, uint16(2))
	f.Add([]byte{0x01, 0x00, 0x89, 0x01, 'p', 0x00, 0x00, 0x80, 0x01, 'x', 0x88, 0x02, 3, 0xE8}, false, uint16(4))
	f.Add([]byte{0x81, 0x7E, 0, 2, 'n', 'o', 0x91, 0}, false, uint16(1))
	f.Fuzz(func(t *testing.T, stream []byte, masked bool, size uint16) {
		want, reason := messagesIn(stream, masked)
		frames := wsframe.NewReader(&chunkReader{stream, 1 + int(size)}, masked, fuzzLimit)
		for i := 0; ; i++ {
			m, err := frames.Next()
			if err != nil {
				if i != len(want) || !errors.Is(err, reason) && (!errors.Is(reason, io.EOF) || !errors.Is(err, io.ErrUnexpectedEOF)) {
					t.Fatalf("after %d messages of %d: %v, want %v", i, len(want), err, reason)
				}
				return
			}
			if i == len(want) {
				t.Fatalf("got an extra message: %x", m.Raw)
			}
			if m.Opcode != want[i].opcode || !bytes.Equal(m.Raw, want[i].raw) || !bytes.Equal(m.Payload(), want[i].clear) {
				t.Fatalf("message %d: got opcode %d, frames %x, payload %x, want %+v", i, m.Opcode, m.Raw, m.Payload(), want[i])
			}
		}
	})
}

type decodedMessage struct {
	opcode     byte
	raw, clear []byte
}

// messagesIn parses a complete stream frame by frame as RFC 6455 (5.2, 5.4, 5.5)
// describes. reason is the error after the last message: io.EOF at the end of the
// stream, possibly within a frame.
func messagesIn(stream []byte, masked bool) (found []decodedMessage, reason error) {
	var message *decodedMessage
	for rest := stream; ; {
		if len(rest) < 2 {
			return found, io.EOF
		}
		final, opcode, length, header := rest[0] >= 0x80, rest[0]&0xF, uint64(rest[1]&0x7F), 2
		control := opcode >= 8
		if rest[0]&0x70 != 0 || opcode > 2 && opcode < 8 || opcode > 10 || control && (!final || length > 125) {
			return found, wsframe.ErrProtocol
		}
		for _, long := range []struct{ mark, size int }{{126, 2}, {127, 8}} {
			if rest[1]&0x7F != byte(long.mark) {
				continue
			}
			if header += long.size; len(rest) < header || rest[1] >= 0x80 && len(rest) < header+4 {
				return found, io.EOF
			}
			length = binary.BigEndian.Uint64(append(make([]byte, 8-long.size), rest[2:header]...))
		}
		var key [4]byte
		if rest[1] >= 0x80 {
			if len(rest) < header+4 {
				return found, io.EOF
			}
			header += copy(key[:], rest[header:])
		}
		if length >= 1<<63 || (rest[1] >= 0x80) != masked || !control && (opcode == 0) != (message != nil) {
			return found, wsframe.ErrProtocol
		}
		had := 0
		if message != nil {
			had = len(message.raw)
		}
		if !control && length+uint64(header+had) > fuzzLimit {
			return found, wsframe.ErrTooBig
		}
		if uint64(len(rest)-header) < length {
			return found, io.EOF
		}
		end := header + int(length)
		part := decodedMessage{opcode: opcode, raw: rest[:end:end]}
		for i, b := range rest[header:end] {
			part.clear = append(part.clear, b^key[i%4])
		}
		rest = rest[end:]
		switch {
		case control:
			found = append(found, part)
			continue
		case message == nil:
			message = &part
		default:
			message.raw, message.clear = append(message.raw, part.raw...), append(message.clear, part.clear...)
		}
		if final {
			found, message = append(found, *message), nil
		}
	}
}

// FuzzFrame checks that written frames of both sides are read back unchanged.
func FuzzFrame(f *testing.F) {
	f.Add(byte(wsframe.Text), []byte("hello"), uint16(wsframe.Normal), "done")
	f.Add(byte(wsframe.Binary), make([]byte, 126), uint16(wsframe.NoStatus), "")
	f.Add(byte(wsframe.Binary), make([]byte, 1<<16), uint16(4001), "taken over")
	f.Add(byte(wsframe.Pong), make([]byte, 125), uint16(0), "")
	f.Fuzz(func(t *testing.T, opcode byte, payload []byte, status uint16, reason string) {
		for masked, raw := range map[bool][]byte{true: wsframe.FromClient(opcode&0xF, payload), false: wsframe.FromServer(opcode&0xF, payload)} {
			h, size, err := wsframe.ReadHeader(raw)
			legal := opcode&0xF <= 2 || opcode&0xF >= 8 && opcode&0xF <= 10 && len(payload) < 126
			if (err == nil) != legal {
				t.Fatalf("opcode %d with %d bytes: %v", opcode&0xF, len(payload), err)
			}
			if err != nil {
				continue
			}
			if !h.Final || h.Opcode != opcode&0xF || h.Masked != masked || h.Payload != int64(len(payload)) || size+len(payload) != len(raw) || size > wsframe.MaxHeader {
				t.Fatalf("%+v, %d bytes of %d", h, size, len(raw))
			}
			if got := h.Unmask(nil, raw[size:], 0); !bytes.Equal(got, payload) {
				t.Errorf("%x was read as %x", payload, got)
			}
			for n := range size {
				if _, early, err := wsframe.ReadHeader(raw[:n]); early != 0 || err != nil {
					t.Fatalf("of a header of %d bytes, %d were accepted: %v", size, n, err)
				}
			}
		}
		gotStatus, gotReason := wsframe.ReadClose(wsframe.ClosePayload(status, reason))
		if status == wsframe.NoStatus {
			reason = ""
		}
		if gotStatus != status || gotReason != reason {
			t.Errorf("closed with %d %q, want %d %q", gotStatus, gotReason, status, reason)
		}
	})
}
