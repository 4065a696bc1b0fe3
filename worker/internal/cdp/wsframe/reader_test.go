package wsframe_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// masked returns a client's frame, masked with a nonzero key.
func masked(final bool, opcode byte, payload string) []byte {
	out := wsframe.FromClient(opcode, []byte(payload))
	start := len(out) - len(payload)
	key := [4]byte{1, 0x55, 0xAA, 7}
	copy(out[start-4:], key[:])
	for i := range payload {
		out[start+i] ^= key[i&3]
	}
	if !final {
		out[0] &^= 0x80
	}
	return out
}

// stream returns a client's stream and the messages and control frames in it.
func stream() (all []byte, want []wsframe.Message) {
	add := func(opcode byte, frames ...[]byte) {
		m := wsframe.Message{Opcode: opcode, Raw: bytes.Join(frames, nil)}
		all, want = append(all, m.Raw...), append(want, m)
	}
	add(wsframe.Text, masked(true, wsframe.Text, "hello"))
	add(wsframe.Binary, masked(true, wsframe.Binary, strings.Repeat("b", 200)))
	add(wsframe.Text, masked(false, wsframe.Text, "in "), masked(false, wsframe.Continuation, ""), masked(true, wsframe.Continuation, "parts"))
	first, ping, last := masked(false, wsframe.Text, "a ping "), masked(true, wsframe.Ping, "?"), masked(true, wsframe.Continuation, "between")
	all = append(append(append(all, first...), ping...), last...)
	want = append(want, wsframe.Message{Opcode: wsframe.Ping, Raw: ping}, wsframe.Message{Opcode: wsframe.Text, Raw: append(first, last...)})
	add(wsframe.Text, masked(true, wsframe.Text, strings.Repeat("l", 70_000)))
	add(wsframe.Close, masked(true, wsframe.Close, "\x03\xE8done"))
	return all, want
}

func TestReader_SplitsStreamIntoMessages(t *testing.T) {
	all, want := stream()
	readers := map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "by halves": iotest.HalfReader,
	}
	for name, slow := range readers {
		for n := 0; n <= len(all); n += 1 + n/300 {
			frames := wsframe.NewReader(slow(bytes.NewReader(all[:n])), true, 1<<20)
			for i := 0; ; i++ {
				m, err := frames.Next()
				if err != nil {
					if n == len(all) && i != len(want) || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Fatalf("%s, the first %d bytes: %d messages, %v", name, n, i, err)
					}
					break
				}
				if m.Opcode != want[i].Opcode || !bytes.Equal(m.Raw, want[i].Raw) {
					t.Fatalf("%s, the first %d bytes: message %d has opcode %d and %d bytes", name, n, i, m.Opcode, len(m.Raw))
				}
			}
		}
	}
}

func TestPayload_IsUnmasked(t *testing.T) {
	_, messages := stream()
	want := []string{"hello", strings.Repeat("b", 200), "in parts", "?", "a ping between", strings.Repeat("l", 70_000), "\x03\xE8done"}
	for i, m := range messages {
		if got := string(m.Payload()); got != want[i] {
			t.Errorf("message %d has payload %.40q, want %.40q", i, got, want[i])
		}
	}
	if status, reason := wsframe.ReadClose(messages[6].Payload()); status != wsframe.Normal || reason != "done" {
		t.Errorf("closed with %d %q", status, reason)
	}
	if status, _ := wsframe.ReadClose(nil); status != wsframe.NoStatus || wsframe.ClosePayload(status, "") != nil {
		t.Errorf("closed with %d", status)
	}
}

func TestReader_RefusesOversizeAndInvalidFrames(t *testing.T) {
	const limit = 100
	empty := bytes.Repeat(masked(false, wsframe.Continuation, ""), 50)
	for name, tc := range map[string]struct {
		stream []byte
		want   error
	}{
		"within the limit":         {masked(true, wsframe.Text, strings.Repeat("x", limit-6)), nil},
		"one byte over it":         {masked(true, wsframe.Text, strings.Repeat("x", limit-5)), wsframe.ErrTooBig},
		"a length of exabytes":     {[]byte{0x81, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}, wsframe.ErrTooBig},
		"over it in parts":         {append(masked(false, wsframe.Text, strings.Repeat("x", 60)), masked(true, wsframe.Continuation, strings.Repeat("x", 60))...), wsframe.ErrTooBig},
		"empty parts":              {append(masked(false, wsframe.Text, ""), empty...), wsframe.ErrTooBig},
		"not masked":               {wsframe.FromServer(wsframe.Text, []byte("x")), wsframe.ErrProtocol},
		"a continuation of none":   {masked(true, wsframe.Continuation, "x"), wsframe.ErrProtocol},
		"a message within another": {append(masked(false, wsframe.Text, "x"), masked(true, wsframe.Text, "x")...), wsframe.ErrProtocol},
		"a reserved bit":           {[]byte{0xC1, 0x80, 0, 0, 0, 0}, wsframe.ErrProtocol},
	} {
		if _, err := wsframe.NewReader(bytes.NewReader(tc.stream), true, limit).Next(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if m, err := wsframe.NewReader(bytes.NewReader(wsframe.FromServer(wsframe.Text, []byte("x"))), false, limit).Next(); err != nil || string(m.Payload()) != "x" {
		t.Errorf("a server's frame: %v", err)
	}
}
