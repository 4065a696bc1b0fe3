package launchsock

import "github.com/browser-svc/svc/worker/internal/wsframe"

// tracker follows a stream of frames by their headers alone and tells where
// frames and messages end. It serves the browser's side of a relay, whose
// payloads nobody looks at.
type tracker struct {
	head     []byte // of a header that has not come whole
	left     int64  // of the payload of the frame under way
	within   bool   // between the frames of a message in parts
	closing  bool   // a close frame went by
	inHeader bool
}

// between reports whether a frame can be put in here: a control frame.
func (t *tracker) between() bool { return t.left == 0 && !t.inHeader }

// free reports whether a message can be put in here.
func (t *tracker) free() bool { return t.between() && !t.within && !t.closing }

// advance takes the next bytes of the stream in and returns the offset of the
// last place in them, or right after them, where a message can be put in; -1
// when there is none.
func (t *tracker) advance(p []byte) (free int, err error) {
	free = -1
	for at := 0; at < len(p); {
		if t.left > 0 {
			n := min(t.left, int64(len(p)-at))
			t.left -= n
			at += int(n)
		} else {
			n, err := t.header(p[at:])
			if err != nil {
				return free, err
			}
			at += n
		}
		if t.free() {
			free = at
		}
	}
	return free, nil
}

// header takes in as much of a header as there is, and returns how much that is.
func (t *tracker) header(p []byte) (int, error) {
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
	t.head, t.inHeader, t.left = t.head[:0], false, h.Payload
	if h.Opcode == wsframe.Close {
		t.closing = true
	}
	if !h.Control() {
		t.within = !h.Final
	}
	return size - had, nil
}

// skip tells that n bytes of the payload under way went by elsewhere.
func (t *tracker) skip(n int64) { t.left -= n }
