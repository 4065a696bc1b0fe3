package audit

import (
	"errors"
	"io"
	"os"
	"time"
)

// maxKindBytes limits the entries of a kind in a log, so that a page that navigates in a
// loop can neither fill the disk nor hide the entries of other kinds.
const maxKindBytes = 8 << 20

// output is the file of a log.
type output interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

var _ output = (*os.File)(nil)

// chain writes the lines of a log. After an error, it continues where the last complete
// line ends, with an entry about what was lost.
type chain struct {
	file output
	key  Key

	seq      int64
	previous string
	size     int64 // of the complete lines
	written  map[Kind]int64

	lost       int64 // entries since the last line
	lostTotal  int64
	incomplete bool
	err        error // the first error since the last line
}

// add writes an entry, or counts it as lost.
func (c *chain) add(p pending) {
	kind := p.data.kind()
	if c.written[kind] > maxKindBytes || !c.reportLost(p.timestamp) {
		c.lose(1)
		return
	}
	before := c.size
	if c.write(p.timestamp, p.data, hashField, hash) != nil {
		c.lose(1)
		return
	}
	c.written[kind] += c.size - before
}

func (c *chain) lose(entries int64) {
	c.lost += entries
	c.lostTotal += entries
}

// reportLost writes how many entries were lost since the last line. It returns false if
// that is not possible.
func (c *chain) reportLost(timestamp time.Time) bool {
	if c.lost == 0 {
		return true
	}
	if c.write(timestamp, Lost{Entries: c.lost}, hashField, hash) != nil {
		return false
	}
	c.lost, c.err = 0, nil
	return true
}

// seal writes the last line. After an error, the log has no seal.
func (c *chain) seal(timestamp time.Time) error {
	state := Complete
	if !c.reportLost(timestamp) {
		return c.err
	}
	if c.incomplete {
		state = Incomplete
	}
	if err := c.write(timestamp, Seal{state}, sealField, c.key.mac); err != nil {
		return err
	}
	return c.file.Sync()
}

func (c *chain) write(timestamp time.Time, data Data, field string, authenticate func([]byte) string) error {
	e := entry{Seq: c.seq + 1, At: timestamp.UTC(), Kind: data.kind(), Data: data, Previous: c.previous}
	raw, sum, err := e.line(field, authenticate)
	if err == nil {
		if _, err = c.file.WriteAt(raw, c.size); err != nil {
			err = errors.Join(err, c.file.Truncate(c.size))
		}
	}
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		return err
	}
	c.seq, c.previous, c.size = e.Seq, sum, c.size+int64(len(raw))
	c.incomplete = c.incomplete || e.Kind == kindLost
	return nil
}
