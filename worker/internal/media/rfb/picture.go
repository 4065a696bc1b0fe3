package rfb

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
)

// noPageJPEG is the picture that is shown while no page is open.
//
//go:embed nopage.jpg
var noPageJPEG []byte

var noPageSize = image.Pt(1280, 720)

// picture is the picture to show, as Chromium encoded it.
type picture struct {
	jpeg    []byte
	size    image.Point
	metrics metrics
	tab     *tab // nil for the picture that is shown without a page
}

func noPage() picture { return picture{jpeg: noPageJPEG, size: noPageSize} }

// maxTight is the maximum size of a Tight rectangle's data, in bytes.
const maxTight = 1<<22 - 1

// update returns a FramebufferUpdate of one rectangle over the whole framebuffer: the
// JPEG if the client supports it, otherwise pixels.
func (p picture) update(size image.Point, format pixelFormat, tight bool) ([]byte, error) {
	if tight && size == p.size && len(p.jpeg) <= maxTight {
		out := make([]byte, 0, len(p.jpeg)+32)
		out = appendRect(out, size, encTight)
		out = append(out, 0x90) // JPEG
		out = appendCompact(out, len(p.jpeg))
		return append(out, p.jpeg...), nil
	}
	decoded, err := jpeg.Decode(bytes.NewReader(p.jpeg))
	if err != nil {
		return nil, fmt.Errorf("picture: %w", err)
	}
	canvas := image.NewRGBA(image.Rectangle{Max: size}) // the size that the client knows
	draw.Draw(canvas, canvas.Bounds(), decoded, decoded.Bounds().Min, draw.Src)
	return format.append(appendRect(nil, size, encRaw), canvas), nil
}

// resizeUpdate returns an update with a new size of the framebuffer. It contains no
// picture, because clients would discard it.
func resizeUpdate(size image.Point) []byte { return appendRect(nil, size, encDesktopSize) }

// appendRect appends the beginning of an update of one rectangle at 0,0.
func appendRect(out []byte, size image.Point, encoding int32) []byte {
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(size.X))
	out = binary.BigEndian.AppendUint16(out, uint16(size.Y))
	return binary.BigEndian.AppendUint32(out, uint32(encoding))
}

// appendCompact appends a length in the compact form of Tight: seven bits, seven
// bits, eight bits, the lowest first.
func appendCompact(out []byte, n int) []byte {
	switch {
	case n < 1<<7:
		return append(out, byte(n))
	case n < 1<<14:
		return append(out, byte(n)|0x80, byte(n>>7))
	default:
		return append(out, byte(n)|0x80, byte(n>>7)|0x80, byte(n>>14))
	}
}

// pixelFormat is the pixel format of a client; only true colour is supported.
type pixelFormat struct {
	bits          int // bits per pixel: 8, 16 or 32
	bigEndian     bool
	maxima, shift [3]uint16 // of red, green and blue
}

// serverFormat is the default pixel format of the server.
var serverFormat = pixelFormat{bits: 32, maxima: [3]uint16{255, 255, 255}, shift: [3]uint16{16, 8, 0}}

func parseFormat(m []byte) (pixelFormat, error) {
	f := pixelFormat{bits: int(m[0]), bigEndian: m[2] != 0}
	if m[3] == 0 || (f.bits != 8 && f.bits != 16 && f.bits != 32) {
		return f, protocolErrorf("pixels must be of true colour and 8, 16 or 32 bits")
	}
	for i := range 3 {
		f.maxima[i], f.shift[i] = binary.BigEndian.Uint16(m[4+2*i:]), uint16(m[10+i])
	}
	return f, nil
}

func (f pixelFormat) append(out []byte, img *image.RGBA) []byte {
	for i := 0; i < len(img.Pix); i += 4 {
		var v uint32
		for c := range 3 {
			v |= (uint32(img.Pix[i+c]) * uint32(f.maxima[c]) / 255) << f.shift[c]
		}
		switch {
		case f.bits == 8:
			out = append(out, byte(v))
		case f.bits == 16 && f.bigEndian:
			out = binary.BigEndian.AppendUint16(out, uint16(v))
		case f.bits == 16:
			out = binary.LittleEndian.AppendUint16(out, uint16(v))
		case f.bigEndian:
			out = binary.BigEndian.AppendUint32(out, v)
		default:
			out = binary.LittleEndian.AppendUint32(out, v)
		}
	}
	return out
}

// serverInit returns a ServerInit message.
func serverInit(size image.Point) []byte {
	const name = "browser"
	out := binary.BigEndian.AppendUint16(nil, uint16(size.X))
	out = binary.BigEndian.AppendUint16(out, uint16(size.Y))
	out = append(out, byte(serverFormat.bits), 24, 0, 1)
	for _, m := range serverFormat.maxima {
		out = binary.BigEndian.AppendUint16(out, m)
	}
	for _, s := range serverFormat.shift {
		out = append(out, byte(s))
	}
	out = append(out, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(len(name)))
	return append(out, name...)
}
