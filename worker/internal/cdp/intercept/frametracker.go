package intercept

import "github.com/browser-svc/svc/worker/internal/cdp/wsframe"

// frameTracker follows a stream of frames by their headers and finds the ends of
// frames and messages. It is used for the browser's frames, whose payloads are read
// only while the answer to an intercepted call is awaited.
type frameTracker struct {
	awaited func() bool // whether the next message may be an awaited answer
	// observe gets messages that may be, of at most maxAnswer bytes, and reports whether the
	// client must not get them.
	observe func(message []byte) (hide bool)

	collecting bool   // message is read
	message    []byte // the current message so far, if it is read
	hidden     bool   // the client must not get the message that has just ended
	tapped     messageCopy
	inControl  bool // the current frame is a control frame
	final      bool // the current data frame is its message's last

	head      []byte // of an incomplete header
	remaining int64  // bytes of the current payload
	inMessage bool   // between the frames of a fragmented message
	closing   bool   // a close frame has passed
	inHeader  bool
}

// atFrameBoundary reports whether a control frame can be inserted here.
func (t *frameTracker) atFrameBoundary() bool { return t.remaining == 0 && !t.inHeader }

// atMessageBoundary reports whether a message can be inserted here.
func (t *frameTracker) atMessageBoundary() bool {
	return t.atFrameBoundary() && !t.inMessage && !t.closing
}

// process processes the next bytes of the stream. It returns the offset of the last
// message boundary in or right after them, or -1 if there is none.
func (t *frameTracker) process(p []byte) (free int, err error) {
	free = -1
	for offset := 0; offset < len(p); {
		n, err := t.step(p[offset:])
		if err != nil {
			return free, err
		}
		if offset += n; t.atMessageBoundary() {
			free = offset
		}
	}
	return free, nil
}

// step processes a header, or a part of one or of a payload, and returns its length.
func (t *frameTracker) step(p []byte) (n int, err error) {
	if t.remaining > 0 {
		n = int(min(t.remaining, int64(len(p))))
		t.collect(p[:n])
		t.remaining -= int64(n)
	} else if n, err = t.readHeader(p); err != nil {
		return n, err
	}
	t.endMessage()
	return n, nil
}

// isUndecided reports whether the current message may still have to be hidden.
func (t *frameTracker) isUndecided() bool { return t.inHeader || t.collecting }

// readHeader reads as much of a header as there is and returns the number of bytes
// read.
func (t *frameTracker) readHeader(p []byte) (int, error) {
	had := len(t.head)
	t.head = append(t.head, p[:min(len(p), wsframe.MaxHeader-had)]...)
	h, size, err := wsframe.ReadHeader(t.head)
	if err != nil {
		return 0, err
	}
	if size == 0 {
		t.inHeader = true
		return len(t.head) - had, nil
	}
	t.head, t.inHeader, t.remaining, t.hidden = t.head[:0], false, h.Payload, false
	if h.Opcode == wsframe.Close {
		t.closing = true
	}
	if t.inControl = h.Control(); t.inControl {
		return size - had, nil
	}
	if !t.inMessage {
		t.tapped.begin()
		t.collecting, t.message = t.awaited != nil && t.awaited(), t.message[:0]
	}
	t.inMessage, t.final = !h.Final, h.Final
	if h.Payload > int64(maxAnswer-len(t.message)) {
		t.collecting = false
	}
	return size - had, nil
}

// collect reads a part of a payload.
func (t *frameTracker) collect(p []byte) {
	if !t.inControl {
		t.tapped.add(nil, p, 0)
	}
	if t.collecting && !t.inControl {
		t.message = append(t.message, p...)
	}
}

// endMessage passes a message on when its last frame is complete.
func (t *frameTracker) endMessage() {
	if !t.final || t.inControl || !t.atFrameBoundary() {
		return
	}
	if t.collecting {
		t.collecting = false
		t.hidden = t.observe(t.message)
	}
	if !t.hidden {
		t.tapped.end()
	}
}
