package intercept

import (
	"bytes"
	"encoding/binary"
	"net"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// written is a connection that records the bytes written to it.
type written struct {
	net.Conn
	bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) { return w.Buffer.Write(p) }
func (w *written) Read(p []byte) (int, error)  { return w.Buffer.Read(p) }

// masked returns a client's frame.
func masked(final bool, opcode byte, payload []byte) []byte {
	first := opcode
	if final {
		first |= 0x80
	}
	out := []byte{first}
	switch n := len(payload); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n <= 0xFFFF:
		out = append(out, 0x80|126, byte(n>>8), byte(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	key := [4]byte{1, 0x55, 0xAA, 7}
	out = append(out, key[:]...)
	return wsframe.Header{Key: key}.Unmask(out, payload, 0)
}

// inParts returns a message in frames of size bytes of payload, optionally with a
// ping after each.
func inParts(message string, size int, pings bool) []byte {
	var out []byte
	opcode := byte(wsframe.Text)
	for rest := []byte(message); ; opcode = wsframe.Continuation {
		n := min(size, len(rest))
		out = append(out, masked(n == len(rest), opcode, rest[:n])...)
		if rest = rest[n:]; len(rest) == 0 {
			return out
		}
		if pings {
			out = append(out, masked(true, wsframe.Ping, []byte("?"))...)
		}
	}
}
