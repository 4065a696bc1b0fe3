package intercept

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

const svcCall = `{"id":1,"method":"Svc.getSessionInfo"}`

func TestClassify_FindsRecipient(t *testing.T) {
	for message, want := range map[string]recipient{
		svcCall:                     forWorker,
		`{"method":"Svc.x","id":1}`: forWorker,
		` { "id" : 12 , "sessionId":"A","method" : "Svc.getBrowserURLs","params":{}}`: forWorker,
		`{"params":{"method":"Browser.x","a":[1,{"b":"}"}]},"method":"Svc."}`:         forWorker,
		`{"id":1,"method":"\u0053vc.a"}`:                                              forWorker,
		`{"id":1,"m\u0065thod":"Svc.a"}`:                                              forWorker,
		`{"id":1,"method":"Runtime.callFunctionOn"}`:                                  evaluation,
		`{"id":1,"method":"Browser.getVersion"}`:                                      forBrowser,
		`{"id":1,"method":"Svc"}`:                                                     forBrowser,
		`{"id":1,"method":"svc.a"}`:                                                   forBrowser,
		`{"id":1,"method":7}`:                                                         forBrowser,
		`{"id":1,"params":{"method":"Svc.a"}}`:                                        forBrowser,
		`{"id":1,"params":"\"method\":\"Svc.a\"","method":"Page.x"}`:                  forBrowser,
		`["Svc.a"]`: forBrowser,
		`{}`:        forBrowser,
		`hello`:     forBrowser,
	} {
		if got := classify([]byte(message)); got != want {
			t.Errorf("%s: got recipient %d, want %d", message, got, want)
		}
		for n := range len(message) { // every truncation has the same recipient or none yet
			if got := classify([]byte(message[:n])); got != undecided && got != want {
				t.Errorf("%s: got recipient %d, want %d or undecided", message[:n], got, want)
			}
		}
	}
}

// TestClientStream_SplitsMessagesHoweverFragmented checks for all frame and read
// sizes that the browser gets its bytes unchanged and in order, and the worker its
// messages.
func TestClientStream_SplitsMessagesHoweverFragmented(t *testing.T) {
	long := `{"id":3,"method":"Runtime.evaluate","params":{"expression":"` + strings.Repeat("x", 9000) + `"}}`
	late := `{"id":4,"params":"` + strings.Repeat("y", maxPrefix) + `","method":"Svc.late"}`
	for _, size := range []int{1, 2, 3, 7, 100, 5000, 1 << 20} {
		for _, chunk := range []int{1, 2, 3, 13, 1000, 1 << 20} {
			for _, pings := range []bool{false, true} {
				var stream, want []byte
				for _, message := range []string{svcCall, `{"id":2,"method":"Browser.getVersion"}`, long, svcCall, late, "", svcCall} {
					frames := inParts(message, size, pings)
					stream = append(stream, frames...)
					if message != svcCall {
						want = append(want, frames...)
					} else if pings {
						for range (len(message) - 1) / size {
							want = append(want, masked(true, wsframe.Ping, []byte("?"))...)
						}
					}
				}
				conn, calls := &written{}, 0
				fromClient := &clientStream{browser: conn, calls: &Connection{}, answer: func(message []byte) Answer {
					if calls++; string(message) != svcCall {
						t.Errorf("the worker got %q", message)
					}
					return Answer{}
				}}
				for p := range slices.Chunk(stream, chunk) {
					if err := fromClient.process(p); err != nil {
						t.Fatal(err)
					}
				}
				// A ping may be forwarded before a buffered beginning of a message.
				if !pings && !bytes.Equal(conn.Bytes(), want) || pings && conn.Len() != len(want) || calls != 3 {
					t.Errorf("frames of %d, reads of %d, pings %v: %d calls, %d bytes to the browser, want 3 and %d", size, chunk, pings, calls, conn.Len(), len(want))
				}
			}
		}
	}
}

func TestClientStream_BoundsBuffer(t *testing.T) {
	stream := &clientStream{browser: &written{}, calls: &Connection{}, answer: func(message []byte) Answer {
		if len(message) != MaxWorkerMessage+1 {
			t.Errorf("the worker got %d bytes", len(message))
		}
		return Answer{}
	}}
	feed := func(p []byte) {
		t.Helper()
		if err := stream.process(p); err != nil {
			t.Fatal(err)
		}
		if len(stream.buffered) > maxUndecided+maxBuffer || len(stream.unmasked) > MaxWorkerMessage+1 {
			t.Fatalf("%d and %d bytes are buffered", len(stream.buffered), len(stream.unmasked))
		}
	}
	feed(masked(false, wsframe.Text, nil))
	for range 50_000 {
		feed(masked(false, wsframe.Continuation, nil))
	}
	feed(masked(true, wsframe.Continuation, nil))
	feed(masked(true, wsframe.Text, []byte(`{"method":"Svc.x","params":"`+strings.Repeat("z", 1<<20)+`"}`)))
}

func TestClientStream_RefusesProtocolErrors(t *testing.T) {
	for name, p := range map[string][]byte{
		"not masked":               wsframe.FromServer(wsframe.Text, []byte("x")),
		"a reserved bit":           {0xC1, 0x80, 0, 0, 0, 0},
		"an unknown opcode":        {0x83, 0x80, 0, 0, 0, 0},
		"a long ping":              {0x89, 0x80 | 126, 0, 126, 0, 0, 0, 0},
		"a ping in parts":          {0x09, 0x80, 0, 0, 0, 0},
		"a negative length":        {0x81, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"a continuation of none":   masked(true, wsframe.Continuation, []byte("x")),
		"a message within another": append(masked(false, wsframe.Text, []byte("{")), masked(true, wsframe.Text, []byte("{"))...),
	} {
		stream := &clientStream{browser: &written{}, calls: &Connection{}, answer: func([]byte) Answer { return Answer{} }}
		if err := stream.process(p); err != wsframe.ErrProtocol { //nolint:errorlint // the error is not wrapped
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzFrames checks that arbitrary bytes of a client, in reads of any size, cause no
// panic, that little is buffered, and that the read size does not change the result.
func FuzzFrames(f *testing.F) {
	f.Add(inParts(svcCall, 3, true), uint16(5))
	f.Add(masked(true, wsframe.Text, []byte(`{"id":1,"method":"Browser.close"}`)), uint16(1))
	f.Add(append(masked(false, wsframe.Text, []byte(`{"method":"S`)), masked(true, wsframe.Continuation, []byte(`vc.x"}`))...), uint16(2))
	f.Add([]byte{0x81, 0xFF, 0, 0, 0, 0, 0, 0, 1, 0, 9, 9, 9, 9, 'x'}, uint16(3))
	f.Add(masked(true, wsframe.Close, []byte{3, 0xE8}), uint16(4))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		run := func(chunk int) (output string, calls []string, failed bool) {
			browser := &written{}
			fromClient := &clientStream{browser: browser, calls: &Connection{}, answer: func(m []byte) Answer { calls = append(calls, string(m)); return Answer{} }}
			for rest := stream; len(rest) > 0; {
				n := min(chunk, len(rest))
				if fromClient.process(rest[:n]) != nil {
					return "", calls, true // after an error the forwarded bytes may differ, because they are forwarded per read
				}
				rest = rest[n:]
				if len(fromClient.buffered) > maxUndecided+len(stream) || len(fromClient.unmasked) > MaxWorkerMessage+1 || len(fromClient.head) > wsframe.MaxHeader {
					t.Fatalf("%d, %d and %d bytes are buffered", len(fromClient.buffered), len(fromClient.unmasked), len(fromClient.head))
				}
			}
			return browser.String(), calls, false
		}
		output, calls, failed := run(len(stream) + 1)
		again, callsAgain, failedAgain := run(int(cut) + 1)
		if failed != failedAgain || strings.Join(calls, "\x00") != strings.Join(callsAgain, "\x00") {
			t.Fatalf("in one read: %v %q; in several: %v %q", failed, calls, failedAgain, callsAgain)
		}
		if len(output) < len(again)-maxUndecided || len(again) < len(output)-maxUndecided {
			t.Fatalf("in one read: %d bytes; in several: %d", len(output), len(again))
		}
	})
}
