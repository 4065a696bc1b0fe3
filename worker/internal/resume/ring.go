package resume

import "sync/atomic"

// overhead is what a message costs beside its bytes.
const overhead = 64

// ring keeps the browser's latest messages, numbered from 1, within a bound of
// bytes that the connections of a launch share.
type ring struct {
	most     int
	bytes    int
	together *atomic.Int64 // bytes of all of the launch's rings
	dropped  int64         // the number of the last message that is kept no more
	messages [][]byte
}

// last is the number of the last message.
func (r *ring) last() int64 { return r.dropped + int64(len(r.messages)) }

// fits reports whether a message of so many bytes finds room. Where it doesn't,
// the oldest messages go, up to number upTo.
func (r *ring) fits(size int, upTo int64) bool {
	for !r.hasRoom(size) && len(r.messages) > 0 && r.dropped < upTo {
		r.dropOne()
	}
	return r.hasRoom(size)
}

// hasRoom is true of an empty ring whatever the others keep, or nothing would
// pass any more.
func (r *ring) hasRoom(size int) bool {
	size += overhead
	return r.bytes+size <= r.most && (len(r.messages) == 0 || r.together.Load()+int64(size) <= int64(r.most))
}

func (r *ring) add(message []byte) {
	r.messages = append(r.messages, message)
	r.take(len(message) + overhead)
}

func (r *ring) take(bytes int) {
	r.bytes += bytes
	r.together.Add(int64(bytes))
}

// drop forgets the messages up to a number.
func (r *ring) drop(upTo int64) {
	for r.dropped < upTo && len(r.messages) > 0 {
		r.dropOne()
	}
}

func (r *ring) dropOne() {
	r.take(-len(r.messages[0]) - overhead)
	r.messages[0] = nil
	r.messages = r.messages[1:]
	r.dropped++
}

// after appends the messages after a number, which must be kept, to a batch: at
// least one, and more while they are no more than so many bytes together.
func (r *ring) after(number int64, bytes int, batch [][]byte) [][]byte {
	for _, message := range r.messages[number-r.dropped:] {
		if bytes -= len(message); bytes < 0 && len(batch) > 0 {
			break
		}
		batch = append(batch, message)
	}
	return batch
}

// size is what the messages from one number to another take, without the first,
// in bytes.
func (r *ring) size(after, to int64) (bytes int) {
	for _, message := range r.messages[after-r.dropped : to-r.dropped] {
		bytes += len(message) + overhead
	}
	return bytes
}
