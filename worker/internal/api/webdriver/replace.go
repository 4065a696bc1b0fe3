package webdriver

import (
	"bytes"
	"io"
)

// replacingReader replaces a text in a stream.
type replacingReader struct {
	source io.Reader
	before []byte
	after  []byte
	unread []byte // replaced
	tail   []byte // may contain the begin of the text
	err    error  // of the source
}

// newReplacingReader returns a reader of source with after instead of before.
func newReplacingReader(source io.Reader, before, after string) *replacingReader {
	return &replacingReader{source: source, before: []byte(before), after: []byte(after)}
}

// Read implements io.Reader.
func (r *replacingReader) Read(p []byte) (int, error) {
	for len(r.unread) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		chunk := make([]byte, 32<<10)
		var n int
		n, r.err = r.source.Read(chunk)
		replaced := bytes.ReplaceAll(append(r.tail, chunk[:n]...), r.before, r.after)
		end := len(replaced)
		if r.err == nil {
			end = max(end-len(r.before)+1, 0)
		}
		r.unread, r.tail = replaced[:end:end], replaced[end:]
	}
	n := copy(p, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}
