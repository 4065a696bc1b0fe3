package resume

import "sync/atomic"

// overhead is what a message costs beside its bytes.
const overhead = 64

// ring keeps the browser's latest messages, numbered from 1, within a bound of
// bytes that the connections of a launch share.
type ring struct {
	maxBytes    int
	bytes       int
	sharedBytes *atomic.Int64 // bytes of all of the launch's rings
	dropped     int64         // the number of the last message that is kept no more
	messages    [][]byte
}

// browserClose is the number of the last message.
func (r *ring) last() int64 { return r.dropped + int64(len(r.messages)) }

// fits reports whether a message of so many bytes finds room. Where it doesn't,
// the oldest messages go, up to number upTo.
func (r *ring) fits(size int, upTo int64) bool {
	for !r.hasSpace(size) && len(r.messages) > 0 && r.dropped < upTo {
		r.dropOne()
	}
	return r.hasSpace(size)
}

// hasSpace is true of an empty ring whatever the others keep, or nothing would
// pass any more.
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

// drop forgets the messages up to a number.
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

// appendAfter appends the messages after a number, which must be kept, to a batch: at
// least one, and more while they are no more than so many bytes together.
func (r *ring) appendAfter(number int64, bytes int, batch [][]byte) [][]byte {
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
