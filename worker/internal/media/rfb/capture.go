package rfb

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"time"
)

// maxCaptured is the maximum width and height of a captured display.
const maxCaptured = 16 << 10

// Frame is a picture of a browser: a JPEG, or pixels of four bytes (blue, green, red and
// an unused one). It is valid until the function that gets it returns.
type Frame struct {
	JPEG bool
	Size image.Point
	Data []byte
}

// Capture gives the pictures of an upstream to show, at most one per interval, until ctx
// or the picture ends. It sends no input. jpeg must be true for a Screencast. Capture owns
// the upstream.
func Capture(ctx context.Context, up *Upstream, jpeg bool, interval time.Duration, show func(Frame)) error {
	defer func() { _ = up.Close() }()
	defer context.AfterFunc(ctx, func() { _ = up.conn.Close() })()
	c := &capture{input: bufio.NewReaderSize(up.conn, 64<<10)}
	c.resize(image.Pt(int(binary.BigEndian.Uint16(up.init)), int(binary.BigEndian.Uint16(up.init[2:]))))
	encoding := int32(encRaw)
	if jpeg {
		encoding = encTight
	}
	if _, err := up.conn.Write(captureSetup(encoding)); err != nil {
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	pace := time.NewTicker(interval)
	defer pace.Stop()
	for ctx.Err() == nil {
		if _, err := up.conn.Write(c.request()); err != nil {
			return fmt.Errorf("%w: %w", ErrEnded, err)
		}
		if err := c.update(show); err != nil {
			return fmt.Errorf("%w: %w", ErrEnded, err)
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// capture is a viewer that stores pictures.
type capture struct {
	input   *bufio.Reader
	size    image.Point
	pixels  []byte
	partial bool // the display was sent once, changes suffice
}

// captureSetup returns the messages that select the format of pictures.
func captureSetup(encoding int32) []byte {
	out := []byte{setPixelFormat, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0}
	out = append(out, setEncodings, 0, 0, 2)
	out = binary.BigEndian.AppendUint32(out, uint32(encoding))
	size := int32(encDesktopSize)
	return binary.BigEndian.AppendUint32(out, uint32(size))
}

func (c *capture) resize(size image.Point) {
	c.size, c.pixels, c.partial = size, nil, false
}

// request returns a request for an update.
func (c *capture) request() []byte {
	out := []byte{updateRequest, 0, 0, 0, 0, 0}
	if c.partial {
		out[1] = 1
	}
	out = binary.BigEndian.AppendUint16(out, uint16(c.size.X))
	return binary.BigEndian.AppendUint16(out, uint16(c.size.Y))
}

// update reads messages until an update has been read.
func (c *capture) update(show func(Frame)) error {
	for {
		kind, err := c.input.ReadByte()
		if err != nil {
			return err
		}
		switch kind {
		case 0:
			return c.rectangles(show)
		case 1: // colours of a palette, which is not in use
			err = c.skip(5, 3, 6)
		case 2: // a bell
		case 3: // the clipboard of the browser
			err = c.skip(7, 3, 1)
		default:
			err = fmt.Errorf("unknown server message %d", kind)
		}
		if err != nil {
			return err
		}
	}
}

// skip skips a message whose header ends with the number of its items.
func (c *capture) skip(header, offset int, item int64) error {
	m, err := readMessage(c.input, header)
	if err != nil {
		return err
	}
	var count int64
	if header-offset == 4 {
		count = int64(int32(binary.BigEndian.Uint32(m[offset:])))
	} else {
		count = int64(binary.BigEndian.Uint16(m[offset:]))
	}
	_, err = io.CopyN(io.Discard, c.input, max(count, -count)*item)
	return err
}

// rectangles reads the rectangles of an update.
func (c *capture) rectangles(show func(Frame)) error {
	header, err := readMessage(c.input, 3)
	if err != nil {
		return err
	}
	drawn := false
	for range binary.BigEndian.Uint16(header[1:]) {
		m, err := readMessage(c.input, 12)
		if err != nil {
			return err
		}
		field := func(i int) int { return int(binary.BigEndian.Uint16(m[i:])) }
		area := image.Rect(field(0), field(2), field(0)+field(4), field(2)+field(6))
		switch encoding := int32(binary.BigEndian.Uint32(m[8:])); encoding {
		case encDesktopSize:
			if area.Dx() > maxCaptured || area.Dy() > maxCaptured {
				return fmt.Errorf("the display has %v pixels", area.Size())
			}
			c.resize(area.Size())
		case encRaw:
			drawn, err = true, c.raw(area)
		case encTight:
			err = c.jpeg(area, show)
			c.partial = true
		default:
			err = fmt.Errorf("unknown encoding %d", encoding)
		}
		if err != nil {
			return err
		}
	}
	if drawn {
		c.partial = true
		show(Frame{Size: c.size, Data: c.pixels})
	}
	return nil
}

// raw reads a rectangle of pixels.
func (c *capture) raw(area image.Rectangle) error {
	if c.pixels == nil {
		c.pixels = make([]byte, 4*c.size.X*c.size.Y)
	}
	if !area.In(image.Rectangle{Max: c.size}) {
		return fmt.Errorf("the rectangle %v is outside of the display", area)
	}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		start := 4 * (y*c.size.X + area.Min.X)
		if _, err := io.ReadFull(c.input, c.pixels[start:start+4*area.Dx()]); err != nil {
			return err
		}
	}
	return nil
}

// jpeg reads a JPEG of the whole display.
func (c *capture) jpeg(area image.Rectangle, show func(Frame)) error {
	if kind, err := c.input.ReadByte(); err != nil || kind != 0x90 {
		return fmt.Errorf("unknown compression %#x: %w", kind, err)
	}
	length := 0
	for shift := 0; shift <= 14; shift += 7 {
		b, err := c.input.ReadByte()
		if err != nil {
			return err
		}
		if shift == 14 {
			length |= int(b) << shift
			break
		}
		length |= int(b&0x7F) << shift
		if b < 0x80 {
			break
		}
	}
	data, err := readMessage(c.input, length)
	if err == nil {
		show(Frame{JPEG: true, Size: area.Size(), Data: data})
	}
	return err
}
