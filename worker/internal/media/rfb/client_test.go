package rfb_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/media/rfb"
)

// update is the content of one FramebufferUpdate.
type update struct {
	picture  image.Image // nil for a change of size
	encoding int32
	size     image.Point
}

// testClient is a viewer.
type testClient struct {
	net.Conn
	reader  *bufio.Reader
	size    image.Point
	updates chan update
	fences  chan []byte
	cut     chan string
	ended   chan error // the result of Serve
}

// pair returns both ends of a TCP connection on loopback.
func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// view serves the upstream to a new client and performs the client's handshake.
func view(t *testing.T, up *rfb.Upstream, access rfb.Access) *testClient {
	t.Helper()
	ours, theirs := pair(t)
	c := &testClient{
		Conn: ours, reader: bufio.NewReader(ours), ended: make(chan error, 1),
		updates: make(chan update, 100), fences: make(chan []byte, 100), cut: make(chan string, 100),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { c.ended <- rfb.Serve(ctx, theirs, up, access, func() {}) })
	t.Cleanup(func() {
		ours.Close()
		cancel()
		serving.Wait()
	})
	c.greet(t)
	return c
}

func (c *testClient) greet(t *testing.T) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got := string(c.read(t, 12)); got != "RFB 003.008\n" {
		t.Fatalf("version %q", got)
	}
	c.write(t, []byte("RFB 003.008\n"))
	if got := c.read(t, 2); !bytes.Equal(got, []byte{1, 1}) {
		t.Fatalf("security types %v, want none", got)
	}
	c.write(t, []byte{1})
	if got := c.read(t, 4); !bytes.Equal(got, make([]byte, 4)) {
		t.Fatalf("security result %v", got)
	}
	c.write(t, []byte{0})
	init := c.read(t, 24)
	c.size = image.Pt(int(binary.BigEndian.Uint16(init)), int(binary.BigEndian.Uint16(init[2:])))
	c.read(t, int(binary.BigEndian.Uint32(init[20:])))
	c.SetReadDeadline(time.Time{})
}

func (c *testClient) read(t *testing.T, n int) []byte {
	t.Helper()
	buf := make([]byte, n)
	if _, err := io.ReadFull(c.reader, buf); err != nil {
		t.Fatal(err)
	}
	return buf
}

func (c *testClient) write(t *testing.T, message []byte) {
	t.Helper()
	if _, err := c.Write(message); err != nil {
		t.Fatal(err)
	}
}

// watch reads updates in the background. The client requests these encodings and
// 32-bit pixels.
func (c *testClient) watch(t *testing.T, encodings ...int32) {
	t.Helper()
	c.write(t, []byte{0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0})
	c.write(t, encodingsMessage(encodings...))
	go func() {
		defer close(c.updates)
		for c.readUpdates() == nil {
			continue
		}
	}()
}

func (c *testClient) readUpdates() error {
	kind, err := c.reader.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case 0:
		head, err := c.some(3)
		if err != nil {
			return err
		}
		for range binary.BigEndian.Uint16(head[1:]) {
			if err := c.rect(); err != nil {
				return err
			}
		}
		return nil
	case 2, 150:
		return nil
	case 3:
		head, err := c.some(7)
		if err != nil {
			return err
		}
		length := int(int32(binary.BigEndian.Uint32(head[3:])))
		text, err := c.some(max(length, -length)) // negative in the extended form
		c.cut <- string(text)
		return err
	case 248:
		head, err := c.some(8)
		if err != nil {
			return err
		}
		payload, err := c.some(int(head[7]))
		c.fences <- payload
		return err
	default:
		return fmt.Errorf("server message %d", kind)
	}
}

func (c *testClient) some(n int) ([]byte, error) {
	buf := make([]byte, n)
	_, err := io.ReadFull(c.reader, buf)
	return buf, err
}

func (c *testClient) rect() error {
	head, err := c.some(12)
	if err != nil {
		return err
	}
	size := image.Pt(int(binary.BigEndian.Uint16(head[4:])), int(binary.BigEndian.Uint16(head[6:])))
	u := update{encoding: int32(binary.BigEndian.Uint32(head[8:])), size: size}
	switch u.encoding {
	case 0:
		raw, err := c.some(4 * size.X * size.Y)
		if err != nil {
			return err
		}
		img := image.NewRGBA(image.Rectangle{Max: size})
		for i := 0; i < len(raw); i += 4 {
			img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = raw[i+2], raw[i+1], raw[i], 255
		}
		u.picture = img
	case 7:
		if u.picture, err = c.tight(); err != nil {
			return err
		}
	case -223:
		c.size = size
	case -308:
		screens, err := c.some(4)
		if err != nil {
			return err
		}
		if _, err := c.some(16 * int(screens[0])); err != nil {
			return err
		}
	case -258:
	default:
		return fmt.Errorf("encoding %d", u.encoding)
	}
	c.updates <- u
	return nil
}

func (c *testClient) tight() (image.Image, error) {
	control, err := c.reader.ReadByte()
	if err != nil || control != 0x90 {
		return nil, fmt.Errorf("compression control %x, %w", control, err)
	}
	length := 0
	for i := range 3 {
		b, err := c.reader.ReadByte()
		if err != nil {
			return nil, err
		}
		if i == 2 {
			length |= int(b) << 14
			break
		}
		length |= int(b&0x7f) << (7 * i)
		if b&0x80 == 0 {
			break
		}
	}
	data, err := c.some(length)
	if err != nil {
		return nil, err
	}
	return jpeg.Decode(bytes.NewReader(data))
}

// ask requests an update and returns it. It skips updates that only confirm an
// extension.
func (c *testClient) ask(t *testing.T, incremental byte) update {
	t.Helper()
	for {
		c.request(t, incremental)
		if u := c.next(t); u.encoding != -308 && u.encoding != -258 {
			return u
		}
		incremental = 1 // otherwise the server confirms the extension again
	}
}

func (c *testClient) request(t *testing.T, incremental byte) {
	t.Helper()
	c.write(t, []byte{3, incremental, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
}

func (c *testClient) next(t *testing.T) update {
	t.Helper()
	select {
	case u, ok := <-c.updates:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return u
	case <-time.After(10 * time.Second):
		t.Fatal("no update")
	}
	return update{}
}

// end waits for Serve and returns its result.
func (c *testClient) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("Serve did not return")
	}
	return nil
}
