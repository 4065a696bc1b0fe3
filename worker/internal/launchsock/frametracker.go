package launchsock

import "github.com/browser-svc/svc/worker/internal/wsframe"

// frameTracker follows a stream of frames by their headers alone and tells where
// frames and messages end. It serves the browser's side of a relay, whose
// payloads nobody looks at.
type frameTracker struct {
	head      []byte // of a header that has not come whole
	remaining int64  // of the payload of the frame under way
	inMessage bool   // atFrameBoundary the frames of a message in parts
	closing   bool   // a close frame went by
	inHeader  bool
}

// atFrameBoundary reports whether a frame can be put in here: a control frame.
func (t *frameTracker) atFrameBoundary() bool { return t.remaining == 0 && !t.inHeader }

// atMessageBoundary reports whether a message can be put in here.
func (t *frameTracker) atMessageBoundary() bool {
	return t.atFrameBoundary() && !t.inMessage && !t.closing
}

// process takes the next bytes of the stream in and returns the offset of the
// last place in them, or right after them, where a message can be put in; -1
// when there is none.
func (t *frameTracker) process(p []byte) (free int, err error) {
	free = -1
	for at := 0; at < len(p); {
		if t.remaining > 0 {
			n := min(t.remaining, int64(len(p)-at))
			t.remaining -= n
			at += int(n)
		} else {
			n, err := t.readHeader(p[at:])
			if err != nil {
				return free, err
			}
			at += n
		}
		if t.atMessageBoundary() {
			free = at
		}
	}
	return free, nil
}

// readHeader takes in as much of a header as there is, and returns how much that is.
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
	t.head, t.inHeader, t.remaining = t.head[:0], false, h.Payload
	if h.Opcode == wsframe.Close {
		t.closing = true
	}
	if !h.Control() {
		t.inMessage = !h.Final
	}
	return size - had, nil
}

// skipValue tells that n bytes of the payload under way went by elsewhere.
func (t *frameTracker) skip(n int64) { t.remaining -= n }
