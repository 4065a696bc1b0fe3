package intercept

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// readMessages parses the frames that a client receives. It fails if a message begins
// within another one.
func readMessages(t *testing.T, p []byte) (messages []string) {
	t.Helper()
	var open *strings.Builder
	for len(p) > 0 {
		h, size, err := wsframe.ReadHeader(p)
		if err != nil || size == 0 || int64(len(p)) < int64(size)+h.Payload {
			t.Fatalf("invalid frames: %v", err)
		}
		payload := p[size : int64(size)+h.Payload]
		p = p[int64(size)+h.Payload:]
		if h.Control() {
			continue
		}
		if (h.Opcode == wsframe.Continuation) != (open != nil) {
			t.Fatalf("a message begins within another")
		}
		if open == nil {
			open = &strings.Builder{}
		}
		open.Write(payload)
		if h.Final {
			messages = append(messages, open.String())
			open = nil
		}
	}
	return messages
}

func TestBrowserStream_SendsAnswersBetweenMessages(t *testing.T) {
	var stream []byte
	for i := range 40 {
		message := bytes.Repeat([]byte{byte('a' + i%26)}, 1+rand.IntN(300))
		if i%3 == 0 { // fragmented, with pings between the frames
			stream = append(stream, wsframe.FromServer(wsframe.Text, message[:len(message)/2])...)
			stream[len(stream)-len(message)/2-headerLength(len(message)/2)] &^= 0x80
			stream = append(stream, wsframe.FromServer(wsframe.Ping, []byte("!"))...)
			rest := wsframe.FromServer(wsframe.Text, message[len(message)/2:])
			rest[0] = 0x80
			stream = append(stream, rest...)
			continue
		}
		stream = append(stream, wsframe.FromServer(wsframe.Text, message)...)
	}
	own := readMessages(t, stream)
	for _, chunk := range []int{1, 2, 5, 64, 1000, 1 << 20} {
		conn := &written{}
		out := &browserStream{conn: conn}
		sent := 0
		for rest := stream; len(rest) > 0; {
			n := min(chunk, len(rest))
			if err := out.forward(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			if rand.IntN(4) == 0 {
				if err := out.Send(fmt.Appendf(nil, "answer %d", sent)); err != nil {
					t.Fatal(err)
				}
				sent++
			}
		}
		answers, others := 0, []string{}
		for _, message := range readMessages(t, conn.Bytes()) {
			if message == fmt.Sprintf("answer %d", answers) {
				answers++
			} else {
				others = append(others, message)
			}
		}
		if answers != sent || strings.Join(others, ",") != strings.Join(own, ",") {
			t.Errorf("reads of %d: got %d of %d answers and %d of %d messages", chunk, answers, sent, len(others), len(own))
		}
	}
}

func TestBrowserStream_HidesAnswers(t *testing.T) {
	var stream []byte
	var want []string
	for i := range 40 {
		message := fmt.Sprintf("%d", i) + strings.Repeat("x", rand.IntN(400))
		switch i % 4 {
		case 0:
			message = "hidden " + message
		case 1:
			stream = append(stream, wsframe.FromServer(wsframe.Ping, []byte("!"))...)
		}
		if i == 20 { // too long to be an answer
			message += strings.Repeat("y", maxAnswer)
		}
		if !strings.HasPrefix(message, "hidden") || i == 20 {
			want = append(want, message)
		}
		stream = append(stream, wsframe.FromServer(wsframe.Text, []byte(message))...)
	}
	for _, chunk := range []int{1, 2, 5, 64, 1000, 1 << 20} {
		conn := &written{}
		out := &browserStream{conn: conn}
		out.frames.awaited = func() bool { return true }
		out.frames.observe = func(message []byte) bool { return bytes.HasPrefix(message, []byte("hidden")) }
		sent := 0
		for rest := stream; len(rest) > 0; {
			n := min(chunk, len(rest))
			if err := out.forward(rest[:n]); err != nil {
				t.Fatal(err)
			}
			if rest = rest[n:]; rand.IntN(4) == 0 && sent < 1000 {
				sent++
				if err := out.Send([]byte("answer")); err != nil {
					t.Fatal(err)
				}
			}
		}
		answers, others := 0, []string{}
		for _, message := range readMessages(t, conn.Bytes()) {
			if message == "answer" {
				answers++
			} else {
				others = append(others, message)
			}
		}
		if answers != sent || strings.Join(others, ",") != strings.Join(want, ",") {
			t.Errorf("reads of %d: got %d of %d answers and %d of %d messages", chunk, answers, sent, len(others), len(want))
		}
	}
}

func headerLength(n int) int {
	if n < 126 {
		return 2
	}
	return 4
}

func TestBrowserStream_CloseFrameIsCompleteOrNotSent(t *testing.T) {
	whole := wsframe.FromServer(wsframe.Text, []byte("message"))
	for n := range len(whole) + 1 {
		near, far := net.Pipe()
		got := make(chan []byte, 1)
		go func() { p, _ := io.ReadAll(far); got <- p }()
		out := &browserStream{conn: near}
		if err := out.forward(whole[:n]); err != nil {
			t.Fatal(err)
		}
		out.sendClose(wsframe.Normal, "idle")
		out.sendClose(wsframe.Normal, "again")
		near.Close()
		want := string(whole[:n])
		if n == 0 || n == len(whole) {
			want += string(wsframe.FromServer(wsframe.Close, append([]byte{3, 0xE8}, "idle"...)))
		}
		if p := <-got; string(p) != want {
			t.Errorf("after %d bytes the client got %q, want %q", n, p, want)
		}
	}
}
