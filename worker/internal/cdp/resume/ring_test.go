package resume

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// TestRing_BehavesLikeBoundedList compares a ring with a plain list.
func TestRing_BehavesLikeBoundedList(t *testing.T) {
	const most = 10_000
	r := ring{maxBytes: most, sharedBytes: new(atomic.Int64)}
	var all [][]byte // all messages so far
	var sent int64
	for range 20_000 {
		size := rand.IntN(900)
		if r.fits(size, sent) {
			message := bytes.Repeat([]byte{byte(len(all))}, size)
			r.add(message)
			all = append(all, message)
		} else if r.dropped < sent || r.bytes+size+overhead <= most {
			t.Fatal("fits returned true for a full ring")
		}
		if r.bytes > most || r.sharedBytes.Load() != int64(r.bytes) || r.last() != int64(len(all)) || r.dropped > sent {
			t.Fatalf("%d bytes, from %d to %d of %d, %d sent", r.bytes, r.dropped, r.last(), len(all), sent)
		}
		batch := r.appendAfter(sent, 2000, nil)
		bytesOf := 0
		for i, message := range batch {
			if !bytes.Equal(message, all[sent+int64(i)]) {
				t.Fatalf("message %d has other content", sent+int64(i)+1)
			}
			bytesOf += len(message)
		}
		if len(batch) > 1 && bytesOf > 2000 || len(batch) == 0 && sent < r.last() {
			t.Fatalf("a batch has %d messages, %d bytes", len(batch), bytesOf)
		}
		if rand.IntN(3) == 0 {
			upTo := sent + int64(len(batch))
			if got := r.size(sent, upTo); got != bytesOf+overhead*len(batch) {
				t.Fatalf("%d messages take %d bytes, want %d", len(batch), got, bytesOf+overhead*len(batch))
			}
			sent = upTo
		}
		if rand.IntN(50) == 0 {
			r.drop(r.dropped + rand.Int64N(sent-r.dropped+1))
		}
	}
	if r.dropped == 0 || len(all) < 1000 {
		t.Errorf("%d messages, %d dropped", len(all), r.dropped)
	}
}
