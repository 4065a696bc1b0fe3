package rfb

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"strings"
	"unicode"
)

// Flags of the extended clipboard: a format, and kinds of messages.
const (
	clipboardText    = 1 << 0
	clipboardCaps    = 1 << 24
	clipboardRequest = 1 << 25
	clipboardNotify  = 1 << 27
	clipboardProvide = 1 << 28
)

// outgoingClipboard is the text for the client's clipboard and what to send about it.
type outgoingClipboard struct {
	text     string
	extended bool // the client supports the extended form, which has all characters

	announce, offer, provide bool // messages that are due
}

// setExtended records whether the client supports the extended form.
func (c *outgoingClipboard) setExtended(extended bool) {
	c.announce = extended && !c.extended
	c.extended = extended
}

// messages returns the messages that are due. Clients with the extended form request the
// text when they know that there is one.
func (c *outgoingClipboard) messages() (m []byte) {
	if c.announce { // text up to 0 bytes is accepted without a request: none
		m = appendExtended(m, clipboardCaps|clipboardRequest|clipboardText, make([]byte, 4))
	}
	switch {
	case c.offer && c.extended:
		m = appendExtended(m, clipboardNotify|clipboardText, nil)
	case c.offer:
		text := latin1(c.text)
		m = append(binary.BigEndian.AppendUint32(append(m, serverCutText, 0, 0, 0), uint32(len(text))), text...)
	}
	if c.provide && c.text != "" {
		m = appendExtended(m, clipboardProvide|clipboardText, compressText(c.text))
	}
	c.announce, c.offer, c.provide = false, false, false
	return m
}

// appendExtended appends a message of the extended clipboard, whose length is negative.
func appendExtended(m []byte, flags uint32, content []byte) []byte {
	m = binary.BigEndian.AppendUint32(append(m, serverCutText, 0, 0, 0), -uint32(4+len(content)))
	return append(binary.BigEndian.AppendUint32(m, flags), content...)
}

// compressText returns text as the extended clipboard has it: with its length, CRLF and a
// final 0.
func compressText(text string) []byte {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n") + "\x00"
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	_, _ = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) // a buffer accepts everything
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return packed.Bytes()
}

// latin1 returns text for clients without the extended form, with ? for characters that
// they cannot receive.
func latin1(text string) []byte {
	raw := make([]byte, 0, len(text))
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		if r > unicode.MaxLatin1 {
			r = '?'
		}
		raw = append(raw, byte(r))
	}
	return raw
}

// sendText queues text for the client's clipboard. It replaces an earlier text.
func (v *clientState) sendText(text string) {
	v.mu.Lock()
	v.clipboard.text, v.clipboard.offer = text, true
	v.mu.Unlock()
	v.wake()
}

// clipboardMessages returns the messages to send about the clipboard.
func (v *clientState) clipboardMessages() []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.clipboard.messages()
}

// cutText reads a message about the client's clipboard: text in the plain form, Latin-1, or
// a request in the extended form. Without its announcement, clients send no other.
func (v *clientState) cutText(input io.Reader, give func(message any)) error {
	m, err := readMessage(input, 7)
	if err != nil {
		return err
	}
	length := int64(int32(binary.BigEndian.Uint32(m[3:])))
	if length < 0 {
		return v.extendedCutText(input, -length)
	}
	if length > maxClipboard {
		_, err := io.CopyN(io.Discard, input, length)
		return err
	}
	raw, err := readMessage(input, int(length))
	if err != nil {
		return err
	}
	text := make([]rune, len(raw))
	for i, b := range raw {
		text[i] = rune(b)
	}
	give(clipboardMessage{string(text)})
	return nil
}

// extendedCutText reads a message in the extended form, of length bytes.
func (v *clientState) extendedCutText(input io.Reader, length int64) error {
	flags, err := readMessage(input, int(min(length, 4)))
	if err != nil {
		return err
	}
	if len(flags) == 4 && binary.BigEndian.Uint32(flags) == clipboardRequest|clipboardText {
		v.mu.Lock()
		v.clipboard.provide = v.clipboard.extended
		v.mu.Unlock()
		v.wake()
	}
	_, err = io.CopyN(io.Discard, input, length-int64(len(flags)))
	return err
}
