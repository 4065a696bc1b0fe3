package intercept

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// fixture is a browser whose proxies and files are the test's.
type fixture struct {
	*Calls
	opened []string // server and bypass list of each proxy
	closed []string // addresses

	captured [][]string // contexts of each call, if downloads are captured
}

func newFixture() *fixture {
	f := &fixture{}
	f.Calls = New(Options{
		OpenProxy: func(server, bypass string) (string, func(), error) {
			switch server {
			case "":
				return "", nil, nil
			case "bad":
				return "", nil, errors.New("it is bad")
			}
			f.opened = append(f.opened, server+" "+bypass)
			address := fmt.Sprintf("http://127.0.0.%d:9", 1+len(f.opened))
			return address, func() { f.closed = append(f.closed, address) }, nil
		},
		CheckFile: func(path string) error {
			switch path {
			case "/there":
				return nil
			case "/secret":
				return fs.ErrPermission
			}
			return fs.ErrNotExist
		},
	})
	return f
}

// socket is a connection over streams.
type socket struct {
	*Connection
	input             *clientStream
	out               *browserStream
	toBrowser, toUser *written
}

func (f *fixture) connect() *socket {
	s := &socket{Connection: f.Connect(), toBrowser: &written{}, toUser: &written{}}
	s.input, s.out = s.streams(&ws.Raw{Conn: s.toUser}, &ws.Raw{Conn: s.toBrowser})
	return s
}

// send sends a message of the client in frames of size bytes and reads of chunk bytes,
// and returns what the browser and the client got.
func (s *socket) send(t *testing.T, message string, size, chunk int) (browser, client string) {
	t.Helper()
	s.toBrowser.Reset()
	s.toUser.Reset()
	for p := range slices.Chunk(inParts(message, size, false), chunk) {
		if err := s.input.process(p); err != nil {
			t.Fatal(err)
		}
	}
	return payloads(s.toBrowser.Bytes()), payloads(s.toUser.Bytes())
}

// answer sends a message of the browser.
func (s *socket) answer(t *testing.T, message string) {
	t.Helper()
	if err := s.out.forward(wsframe.FromServer(wsframe.Text, []byte(message))); err != nil {
		t.Fatal(err)
	}
}

// payloads returns the payloads of frames.
func payloads(raw []byte) string { return string(wsframe.Message{Raw: raw}.Payload()) }

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

func TestConnection_RewritesProxyOfContext(t *testing.T) {
	padding := strings.Repeat("x", 5000)
	for _, message := range []string{
		`{"id":7,"method":"Target.createBrowserContext","params":{"proxyServer":"a:1","proxyBypassList":"*.test","disposeOnDetach":true},"sessionId":"S"}`,
		`{"params":{"proxyServer":"a:1","proxyBypassList":"*.test","disposeOnDetach":true},"sessionId":"S","id":7,"method":"Target.createBrowserContext"}`,
		` { "id" : 7,"m\u0065thod":"Target.create\u0042rowserContext","sessionId":"S","params":{"disposeOnDetach":true,"proxyServer":"a:1","proxyBypassList":"*.test"} } `,
		`{"params":{"proxyServer":"a:1","proxyBypassList":"*.test","disposeOnDetach":true},"x":"` + padding + `","method":"Target.createBrowserContext","id":7,"sessionId":"S"}`,
	} {
		want := decode(t, message).(map[string]any)
		want["params"] = map[string]any{"proxyServer": "http://127.0.0.2:9", "proxyBypassList": "<-loopback>", "disposeOnDetach": true}
		for _, size := range []int{1, 7, 100, 1 << 20} {
			for _, chunk := range []int{1, 13, 1 << 20} {
				f := newFixture()
				s := f.connect()
				browser, client := s.send(t, message, size, chunk)
				if diff := cmp.Diff(any(want), decode(t, browser)); diff != "" || client != "" {
					t.Errorf("frames of %d, reads of %d: %s\nthe client got %q", size, chunk, diff, client)
				}
				if diff := cmp.Diff([]string{"a:1 *.test"}, f.opened); diff != "" {
					t.Error(diff)
				}
			}
		}
	}
}

func TestConnection_ForwardsOtherMessagesUnchanged(t *testing.T) {
	f := newFixture()
	for _, message := range []string{
		`{"id":1,"method":"Target.createBrowserContext"}`,
		`{"id":1,"method":"Target.createBrowserContext","params":{"disposeOnDetach":true}}`,
		`{"id":1,"method":"Target.createBrowserContext","params":{"proxyServer":7}}`,
		`{"id":"1","method":"Target.createBrowserContext","params":{"proxyServer":"a:1"}}`,
		`{"id":1,"method":"Target.createBrowserContext","params":{"proxyServer":"a:1"}`,
		`{"id":1,"method":"Target.createBrowserContexts","params":{"proxyServer":"a:1"}}`,
		`{"id":1,"method":"Target.disposeBrowserContext","params":{"browserContextId":"other"}}`,
		`{"id":1,"method":"DOM.setFileInputFiles","params":{"files":["/there"]}}`,
		`{"id":1,"method":"DOM.setFileInputFiles","params":{"files":"/missing"}}`,
		`{"id":1,"method":"Svc.getSessionInfo"}`,
		`{"id":1,"method":"Target.exposeDevToolsProtocol","params":{"targetId":"T"}}`,
		`{"id":1,"method":"Target.sendMessageToTarget","params":{"message":"{\"id\":1,\"method\":\"Page.enable\"}"}}`,
		`{"id":1,"method":"Target.sendMessageToTarget","params":{"message":"?"}}`,
		`{"id":1,"method":"Runtime.evaluate","params":{"expression":"` + strings.Repeat("Target.createBrowserContext", 9000) + `"}}`,
		`{"id":1,"method":"DOM.setFileInputFiles","params":{"files":["` + strings.Repeat("y", maxHandled) + `"]}}`,
	} {
		for _, size := range []int{13, 1 << 21} {
			s := f.connect()
			if browser, client := s.send(t, message, size, 1000); browser != message || client != "" || s.awaits() {
				t.Errorf("%.100s: the browser got %.100q, the client %q", message, browser, client)
			}
			if forward, answer := s.HandleMessage(wsframe.Message{Opcode: wsframe.Text, Raw: inParts(message, size, false)}); payloads(forward) != message || answer != nil {
				t.Errorf("%.100s: forwarded %.100q, answered %q", message, forward, answer)
			}
		}
	}
	if len(f.opened) > 0 {
		t.Errorf("opened %v", f.opened)
	}
}

func TestConnection_KeepsOwnEgressForEmptyProxy(t *testing.T) {
	browser, _ := newFixture().connect().send(t, `{"id":1,"method":"Target.createBrowserContext","params":{"proxyServer":"","proxyBypassList":"*","disposeOnDetach":false}}`, 50, 50)
	if diff := cmp.Diff(decode(t, `{"id":1,"method":"Target.createBrowserContext","params":{"disposeOnDetach":false}}`), decode(t, browser)); diff != "" {
		t.Error(diff)
	}
}

func TestConnection_AnswersErrors(t *testing.T) {
	advice := ": the path is looked up on the browser's machine, in its sandbox. Send the content instead of a path (Playwright: setInputFiles with name, mimeType and buffer; Selenium: LocalFileDetector), or use a path that the browser can read. PUT /browsers/{launchId}/files/{name} uploads a file and returns such a path."
	for message, want := range map[string]string{
		`{"id":3,"sessionId":"S","method":"Target.createBrowserContext","params":{"proxyServer":"bad"}}`:                                          "The proxyServer cannot be used: it is bad.",
		`{"id":3,"sessionId":"S","method":"DOM.setFileInputFiles","params":{"files":["/there","/gone"]}}`:                                         `The browser has no file "/gone"` + advice,
		`{"id":3,"sessionId":"S","method":"DOM.setFileInputFiles","params":{"files":["/secret"]}}`:                                                `The browser cannot read "/secret"` + advice,
		`{"id":3,"sessionId":"S","method":"Extensions.loadUnpacked","params":{"path":"/tmp/mine"}}`:                                               "Extensions are loaded at the launch only: store the extension with POST /extensions and list its id in browser.extensions.",
		`{"id":3,"sessionId":"S","method":"Target.sendMessageToTarget","params":{"message":"{\"id\":1,\"method\":\"Extensions.loadUnpacked\"}"}}`: "Extensions.loadUnpacked is not possible with Target.sendMessageToTarget: attach to the target with flatten: true.",
	} {
		expected := map[string]any{"id": 3., "sessionId": "S", "error": map[string]any{"code": -32000., "message": want}}
		s := newFixture().connect()
		browser, client := s.send(t, message, 11, 17)
		if diff := cmp.Diff(any(expected), decode(t, client)); diff != "" || browser != "" {
			t.Errorf("%s\nthe browser got %q", diff, browser)
		}
		forward, answer := s.HandleMessage(wsframe.Message{Opcode: wsframe.Text, Raw: inParts(message, 11, false)})
		if diff := cmp.Diff(any(expected), decode(t, string(answer))); diff != "" || len(forward) > 0 {
			t.Errorf("%s\nforwarded %q", diff, forward)
		}
	}
}

// TestConnection_ThrowsRefusedDirectory sends the calls of Playwright for a directory.
func TestConnection_ThrowsRefusedDirectory(t *testing.T) {
	const (
		choose  = `{"id":3,"method":"DOM.setFileInputFiles","params":{"files":["/gone"],"objectId":"1"},"sessionId":"S"}`
		prepare = `{"id":4,"method":"Runtime.callFunctionOn","params":{"arguments":[{"value":{"o":[{"k":"multiple","v":{"v":"undefined"}},{"k":"directoryUpload","v":true}]}}]},"sessionId":"S"}`
	)
	synctest.Test(t, func(t *testing.T) {
		s := newFixture().connect()
		send := func(message string) (browser, client string) { return s.send(t, message, 1<<20, 1<<20) }
		assertForwarded := func(when, message string) {
			t.Helper()
			if browser, client := send(message); browser != message || client != "" {
				t.Errorf("%s: the browser got %q, the client %q", when, browser, client)
			}
		}
		assertForwarded("before a refusal", prepare)
		send(choose)
		assertForwarded("in another session", strings.Replace(prepare, `"S"`, `"T"`, 1))
		assertForwarded("for files", strings.Replace(prepare, `"v":true`, `"v":false`, 1))
		browser, client := send(prepare)
		var answer struct {
			ID        int
			SessionID string
			Result    struct {
				ExceptionDetails struct{ Exception struct{ Description string } }
			}
		}
		if err := json.Unmarshal([]byte(client), &answer); err != nil || answer.ID != 4 || answer.SessionID != "S" || browser != "" ||
			!strings.HasPrefix(answer.Result.ExceptionDetails.Exception.Description, `Error: The browser has no file "/gone"`) {
			t.Errorf("the browser got %q, the client %q", browser, client)
		}
		assertForwarded("the second time", prepare)
		send(choose)
		time.Sleep(refusalLifetime)
		assertForwarded("later", prepare)
	})
}

func TestConnection_ClosesProxyWithContext(t *testing.T) {
	const create = `{"id":%d,"sessionId":"S","method":"Target.createBrowserContext","params":{"proxyServer":"a:1","disposeOnDetach":%v}}`
	const dispose = `{"id":%d,"method":"Target.disposeBrowserContext","params":{"browserContextId":"C%[1]d"}}`
	f := newFixture()
	s, other := f.connect(), f.connect()
	for i := 2; i <= 6; i++ {
		s.send(t, fmt.Sprintf(create, i, i >= 5), 1000, 1000)
	}
	s.answer(t, `{"id":2,"result":{"browserContextId":"not its session"}}`)
	s.answer(t, `{"method":"Page.event","params":{"text":"`+strings.Repeat("z", 2*maxAnswer)+`"}}`)
	for _, i := range []int{3, 2, 5} {
		s.answer(t, fmt.Sprintf(`{"id":%d,"result":{"browserContextId":"C%[1]d"},"sessionId":"S"}`, i))
	}
	s.answer(t, `{"id":4,"error":{"code":-32000,"message":"no"},"sessionId":"S"}`)
	assertClosed := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, f.closed); diff != "" {
			t.Errorf("%s:\n%s", when, diff)
		}
		f.closed = nil
	}
	assertClosed("after a failure", "http://127.0.0.4:9")

	other.send(t, fmt.Sprintf(dispose, 2), 1000, 1000)
	other.answer(t, `{"id":2,"error":{"code":-32000,"message":"no"}}`)
	assertClosed("after a refused disposal")
	other.send(t, fmt.Sprintf(dispose, 2), 1000, 1000)
	assertClosed("before the answer")
	other.answer(t, `{"id":2,"result":{}}`)
	assertClosed("after a disposal by another connection", "http://127.0.0.2:9")
	other.Close()
	assertClosed("after the end of another connection")
	s.Close()
	slices.Sort(f.closed)
	assertClosed("after the end of the connection", "http://127.0.0.5:9", "http://127.0.0.6:9")
	if s.awaits(); !f.hasProxy("C3") {
		t.Error("a context without disposeOnDetach lost its proxy")
	}
}

func TestHandleAnswer_RegistersContext(t *testing.T) {
	f := newFixture()
	n := f.Connect()
	forward, _ := n.HandleMessage(wsframe.Message{Opcode: wsframe.Text, Raw: inParts(`{"id":1,"method":"Target.createBrowserContext","params":{"proxyServer":"a:1"}}`, 5, false)})
	if !strings.Contains(payloads(forward), "127.0.0.2:9") {
		t.Errorf("forwarded %q", forward)
	}
	n.HandleAnswer(wsframe.Message{Opcode: wsframe.Text, Raw: wsframe.FromServer(wsframe.Text, []byte(`{"id":1,"result":{"browserContextId":"C"}}`))})
	if n.awaits() || !f.hasProxy("C") {
		t.Error("the answer was not read")
	}
}

func TestCalls_NilInterceptsNothing(t *testing.T) {
	const message = `{"id":1,"method":"Target.createBrowserContext","params":{"proxyServer":"a:1"}}`
	n := (*Calls)(nil).Connect()
	defer n.Close()
	if forward, answer := n.HandleMessage(wsframe.Message{Opcode: wsframe.Text, Raw: inParts(message, 9, false)}); payloads(forward) != message || answer != nil {
		t.Errorf("forwarded %q, answered %q", forward, answer)
	}
}

// BenchmarkClientStream shows the cost of one message of the client, without the
// connections' reads and writes.
func BenchmarkClientStream(b *testing.B) {
	for name, size := range map[string]int{"100 bytes": 10, "2 KiB": 2000, "1 MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			frame := inParts(`{"id":1234,"method":"Runtime.callFunctionOn","params":{"functionDeclaration":"`+strings.Repeat("x", size)+`"}}`, 1<<30, false)
			s := newFixture().connect()
			b.ReportAllocs()
			for b.Loop() {
				s.toBrowser.Reset()
				if err := s.input.process(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
