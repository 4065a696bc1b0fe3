package sandbox

import (
	"strings"
	"testing"
)

func TestSend_DeliversAllLengths(t *testing.T) {
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	const quotes = 2
	for _, length := range []int{1, chunkSize - 1, chunkSize, chunkSize + 1, 3*chunkSize - 1, 3 * chunkSize, 3*chunkSize + 1, maxMessage - 1, maxMessage} {
		sent := make(chan error, 1)
		message := strings.Repeat("x", max(length-quotes, 0))
		go func() { sent <- send(t.Context(), ours, message) }()
		var got string
		if err := readMessage(int(theirs.Fd()), &got); err != nil || got != message {
			t.Errorf("%d bytes: got %d, %v", length, len(got), err)
		}
		if err := <-sent; err != nil {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
	if err := send(t.Context(), ours, strings.Repeat("x", maxMessage)); err == nil {
		t.Error("more bytes than expected were sent")
	}
}
