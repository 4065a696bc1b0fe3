package resume

import "sync/atomic"

// overhead is the memory used by a message in addition to its bytes.
const overhead = 64

// ring buffers the browser's latest messages, numbered from 1, within a limit of
// bytes that the connections of a launch share.
type ring struct {
	maxBytes    int
	bytes       int
	sharedBytes *atomic.Int64 // bytes in all rings of the launch
	dropped     int64         // number of the last message that was dropped
	messages    [][]byte
}

// last returns the number of the last message.
func (r *ring) last() int64 { return r.dropped + int64(len(r.messages)) }

// fits reports whether a message of this size fits. It drops the oldest
// messages, up to number upTo, to make it fit.
func (r *ring) fits(size int, upTo int64) bool {
	for !r.hasSpace(size) && len(r.messages) > 0 && r.dropped < upTo {
		r.dropOne()
	}
	return r.hasSpace(size)
}

// hasSpace is true for an empty ring even if the shared limit is reached, so
// that messages can always pass.
func (r *ring) hasSpace(size int) bool {
	size += overhead
	return r.bytes+size <= r.maxBytes && (len(r.messages) == 0 || r.sharedBytes.Load()+int64(size) <= int64(r.maxBytes))
}

func (r *ring) add(message []byte) {
	r.messages = append(r.messages, message)
	r.addBytes(len(message) + overhead)
}

func (r *ring) addBytes(bytes int) {
	r.bytes += bytes
	r.sharedBytes.Add(int64(bytes))
}

// drop drops the messages up to a number.
func (r *ring) drop(upTo int64) {
	for r.dropped < upTo && len(r.messages) > 0 {
		r.dropOne()
	}
}

func (r *ring) dropOne() {
	r.addBytes(-len(r.messages[0]) - overhead)
	r.messages[0] = nil
	r.messages = r.messages[1:]
	r.dropped++
}

// appendAfter appends the messages after a number, which must be buffered, to a
// batch: at least one, and more up to this many bytes.
func (r *ring) appendAfter(number int64, bytes int, batch [][]byte) [][]byte {
	for _, message := range r.messages[number-r.dropped:] {
		if bytes -= len(message); bytes < 0 && len(batch) > 0 {
			break
		}
		batch = append(batch, message)
	}
	return batch
}

// size returns the bytes of the messages after one number up to another.
func (r *ring) size(after, last int64) (bytes int) {
	for _, message := range r.messages[after-r.dropped : last-r.dropped] {
		bytes += len(message) + overhead
	}
	return bytes
}
