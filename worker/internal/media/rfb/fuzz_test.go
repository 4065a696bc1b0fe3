package rfb_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/media/rfb"
)

// chunkReader reads a few bytes at a time.
type chunkReader struct {
	rest []byte
	size int
}

func (p *chunkReader) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// FuzzFilter checks for arbitrary bytes in reads of any size that exactly the
// messages of a table pass, each completely, that no input of a watcher passes, and
// that the screencast server parses the output into the same messages.
func FuzzFilter(f *testing.F) {
	for _, m := range messages {
		if len(m.sent) < 1000 {
			f.Add(slices.Concat(m.sent, request), true, byte(0))
			f.Add(slices.Concat(m.sent, request), false, byte(200))
		}
	}
	f.Add(giiVersion, true, byte(1))
	f.Add([]byte{6, 0, 0, 0, 0x80, 0, 0, 0}, true, byte(1))
	f.Add([]byte{2, 0, 0xFF, 0xFF, 0, 0}, false, byte(1))
	f.Fuzz(func(t *testing.T, sent []byte, control bool, size byte) {
		access := rfb.Watch
		if control {
			access = rfb.Control
		}
		want, broken := expectedOutput(sent, control)
		var passed bytes.Buffer
		err := rfb.Filter(&chunkReader{sent, 1 + int(size)}, &passed, access, func() {})
		if _, breach := errors.AsType[*rfb.ProtocolError](err); breach != broken || !breach && !errors.Is(err, rfb.ErrClientGone) {
			t.Errorf("ended with %v; protocol violation expected: %v", err, broken)
		}
		if !bytes.Equal(passed.Bytes(), want) {
			t.Fatalf("%x was filtered to %x, want %x", sent, passed.Bytes(), want)
		}
		if !control {
			assertHarmless(t, passed.Bytes())
		}
		left, input, rightFormat := rfb.Understood(want)
		if left > 0 && !hasOddFormat(want) || input > 0 && !control || !rightFormat {
			t.Errorf("for %x the screencast leaves %d bytes unread and finds %d input messages; correct format: %v", want, left, input, rightFormat)
		}
	})
}

// expectedOutput returns the expected output for a complete stream, and whether the
// stream ends with an invalid message.
func expectedOutput(sent []byte, control bool) (passed []byte, broken bool) {
	table := map[byte]struct {
		length int
		passes bool
	}{0: {20, true}, 3: {10, true}, 150: {10, true}, 4: {8, control}, 5: {6, control}, 250: {4, false}}
	for rest := sent; len(rest) > 0; {
		padded := append(slices.Clone(rest[:min(len(rest), 9)]), make([]byte, 9)...)
		here := len(rest) // available bytes
		known, ok := table[rest[0]]
		length, passes := known.length, known.passes
		switch {
		case ok:
		case rest[0] == 2:
			count := int(binary.BigEndian.Uint16(padded[2:]))
			if here >= 4 && count > 1024 {
				return passed, true
			}
			length, passes = 4+4*count, true
		case rest[0] == 6:
			size := int(int32(binary.BigEndian.Uint32(padded[4:])))
			size = max(size, -size)
			length, passes = 8+size, control && size <= 256<<10
		case rest[0] == 248:
			if here >= 9 && padded[8] > 64 {
				return passed, true
			}
			length, passes = 9+int(padded[8]), true
		case rest[0] == 251:
			length = 8 + 16*int(padded[6])
		case rest[0] == 255 && here < 4:
			length = 4
		case rest[0] == 255 && padded[1] == 0:
			length, passes = 12, control
		case rest[0] == 255 && padded[1] == 1 && binary.BigEndian.Uint16(padded[2:]) == 2:
			length = 10
		case rest[0] == 255 && padded[1] == 1:
			length = 4
		default:
			return passed, true
		}
		if minimum := map[byte]int{2: 4, 6: 8, 248: 9, 251: 8}[rest[0]]; here < max(length, minimum) {
			return passed, false
		}
		message := slices.Clone(rest[:length])
		if rest[0] == 2 {
			message = withoutExtensions(message, control)
		}
		if passes {
			passed = append(passed, message...)
		}
		rest = rest[length:]
	}
	return passed, false
}

func withoutExtensions(message []byte, control bool) []byte {
	never, input := []uint32{0xfffffecb, 0xfffffec4, 0xfffffefd}, []uint32{0xfffffefe, 0xc0a1e5ce}
	kept := slices.Clone(message[:4])
	for part := range slices.Chunk(message[4:], 4) {
		if e := binary.BigEndian.Uint32(part); !slices.Contains(never, e) && (control || !slices.Contains(input, e)) {
			kept = append(kept, part...)
		}
	}
	binary.BigEndian.PutUint16(kept[2:], uint16((len(kept)-4)/4))
	return kept
}

// hasOddFormat reports whether a client may have requested a pixel format that
// screencasts do not support, which ends the connection.
func hasOddFormat(passed []byte) bool {
	for i := range passed {
		if passed[i] == 0 && len(passed) >= i+20 && (passed[i+7] == 0 || !slices.Contains([]byte{8, 16, 32}, passed[i+4])) {
			return true
		}
	}
	return false
}

// scriptedConn is a connection whose peer has a prepared output.
type scriptedConn struct {
	net.Conn // nil: other methods are not called
	chunkReader
	wrote  bytes.Buffer
	closed chan struct{} // nil: EOF follows the output
}

func (w *scriptedConn) Read(b []byte) (int, error) {
	n, err := w.chunkReader.Read(b)
	if n == 0 && w.closed != nil {
		<-w.closed
	}
	return n, err
}

func (w *scriptedConn) Write(b []byte) (int, error) { return w.wrote.Write(b) }

func (w *scriptedConn) Close() error {
	if w.closed != nil {
		select {
		case <-w.closed:
		default:
			close(w.closed)
		}
	}
	return nil
}

func (w *scriptedConn) SetDeadline(time.Time) error { return nil }

// FuzzGreeting checks that a client reaches the browser only after the handshake of
// version 3.8, that its messages then pass the filter, and that a client that fails
// the handshake receives no further messages.
func FuzzGreeting(f *testing.F) {
	const good = "RFB 003.008\n\x01\x01"
	for _, said := range []string{good, good + string(request), good + string(holdKey('a', 1)) + string(request), "RFB 003.003\n", "RFB 003.008\n\x02", "RFB 003.008\n\x01", "RFB 003.00", "", "GET / HTTP/1.1\r\n\r\n"} {
		f.Add([]byte(said), byte(0))
		f.Add([]byte(said), byte(255))
	}
	init := append(slices.Concat([]byte{3, 32, 2, 88}, pixelFormat[4:], []byte{0, 0, 0, 4}), "desk"...)
	steps := []struct{ toClient, says string }{{"RFB 003.008\n", "RFB 003.008\n"}, {"\x01\x01", "\x01"}, {"\x00\x00\x00\x00", "?"}}
	f.Fuzz(func(t *testing.T, said []byte, size byte) {
		client := &scriptedConn{chunkReader: chunkReader{said, 1 + int(size)}}
		server := &scriptedConn{closed: make(chan struct{})}
		err := rfb.Serve(t.Context(), client, rfb.NewUpstream(server, init), rfb.Watch, func() { t.Error("acted was called for a watcher") })
		var toClient string
		rest, greeted, broken := string(said), true, false
		for _, s := range steps {
			toClient += s.toClient
			if len(rest) < len(s.says) || s.says != "?" && !strings.HasPrefix(rest, s.says) {
				greeted, broken = false, len(rest) >= len(s.says)
				break
			}
			rest = rest[len(s.says):]
		}
		var want []byte
		if greeted {
			toClient += string(init)
			want, broken = expectedOutput([]byte(rest), false)
		}
		if _, breach := errors.AsType[*rfb.ProtocolError](err); breach != broken || err == nil {
			t.Errorf("ended with %v; protocol violation expected: %v", err, broken)
		}
		if client.wrote.String() != toClient || !bytes.Equal(server.wrote.Bytes(), want) {
			t.Errorf("the client received %q, want %q; the server received %x, want %x", client.wrote.String(), toClient, server.wrote.Bytes(), want)
		}
	})
}

// FuzzHandshake checks for arbitrary bytes of a server that the handshake reads no
// further than its end, buffers little, and never sends the password in clear text.
func FuzzHandshake(f *testing.F) {
	good := slices.Concat([]byte("RFB 003.008\n\x02\x01\x02"), make([]byte, 16), []byte{0, 0, 0, 0, 3, 32, 2, 88}, pixelFormat[4:], []byte{0, 0, 0, 4}, []byte("desk"))
	f.Add(good, byte(0))
	f.Add(append(slices.Clone(good), "update"...), byte(100))
	wrong := slices.Clone(good)
	wrong[12+1+2+16+3] = 1
	f.Add(wrong, byte(9))
	f.Add(slices.Concat(good[:len(good)-8], []byte{0, 0, 19, 136}, make([]byte, 5000)), byte(255))
	f.Add([]byte("RFB 003.008\n\x00\x00\x00\x00\x04busy"), byte(3))
	f.Add([]byte("RFB 003.008\n\x00\xff\xff\xff\xffbusy"), byte(3))
	f.Add([]byte("RFB 003.008\n\x01\x01"), byte(3))
	f.Add([]byte("RFB 003.003\n"), byte(3))
	f.Add(append(slices.Clone(good[:len(good)-8]), 0xff, 0xff, 0xff, 0xff), byte(9))
	f.Fuzz(func(t *testing.T, said []byte, size byte) {
		const password = "pA55word"
		server := &scriptedConn{chunkReader: chunkReader{said, 1 + int(size)}}
		init, err := rfb.Handshake(server, password)
		if bytes.Contains(server.wrote.Bytes(), []byte(password)) || err != nil && (strings.Contains(err.Error(), password) || len(err.Error()) > 20<<10) {
			t.Errorf("sent %q, error %v", server.wrote.Bytes(), err)
		}
		wrote := server.wrote.Bytes()
		if err != nil {
			if init != nil && len(init) > 24+4096 || len(wrote) > 12+1+16+1 {
				t.Errorf("%d bytes are buffered, %x was sent: %v", len(init), wrote, err)
			}
			return
		}
		types := int(said[12])
		offset := 12 + 1 + types + 16 + 4
		name := int(binary.BigEndian.Uint32(said[offset+20:]))
		if name > 4096 || string(said[:12]) != "RFB 003.008\n" || !bytes.Contains(said[13:13+types], []byte{2}) || !bytes.Equal(said[offset-4:offset], make([]byte, 4)) ||
			!bytes.Equal(init, said[offset:offset+24+name]) || len(server.rest) != len(said)-offset-24-name || len(wrote) != 12+1+16+1 || wrote[12] != 2 || wrote[29] != 1 {
			t.Errorf("%q returned %x, %d bytes are unread, %x was sent", said, init, len(server.rest), wrote)
		}
	})
}
