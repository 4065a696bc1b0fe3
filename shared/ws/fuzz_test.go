//nolint:staticcheck // see ws.go
package ws

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode"

	"nhooyr.io/websocket"
)

// scriptedConn is a connection to a peer that has sent all of its data.
type scriptedConn struct {
	net.Conn // nil: other methods are not called
	rest     []byte
	size     int // bytes per read
	written  bytes.Buffer
}

func (s *scriptedConn) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:min(s.size, len(s.rest))])
	s.rest = s.rest[n:]
	return n, nil
}

func (s *scriptedConn) Write(p []byte) (int, error) { return s.written.Write(p) }

// FuzzShake: the browser receives exactly one handshake, which contains only the key
// and the protocols of the client's headers. The client receives only handshake headers
// of the answer, and each following byte once.
func FuzzShake(f *testing.F) {
	const head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n"
	f.Add("dGhlIHNhbXBsZSBub25jZQ==", "cdp", []byte(head+"\r\n\x81\x02hi"), byte(0))
	f.Add("a\r\nHost: evil", "x\r\n\r\nGET / HTTP/1.1", []byte(head+"Set-Cookie: a=b\r\nContent-Length: 3\r\n\r\nabcdef"), byte(255))
	f.Add("", "", []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"), byte(9))
	f.Add("k", "", []byte("HTTP/1.0 101\r\n\n\x81"), byte(1))
	f.Add("k", "", []byte("HTTP/1.1 101 x\nSec-WebSocket-Protocol: a\n\tb\nTransfer-Encoding: chunked\n\n\x81"), byte(1))
	f.Add("k", "", bytes.Repeat([]byte("x"), 10<<10), byte(255))
	f.Fuzz(func(t *testing.T, key, protocol string, answer []byte, size byte) {
		if strings.ContainsFunc(key+protocol, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\r\n\t", r) }) {
			return // net/http refuses such headers; line breaks are tested anyway
		}
		client := http.Header{
			"Sec-Websocket-Key": {key}, "Sec-Websocket-Protocol": {protocol}, "Cookie": {"a=" + protocol}, "X-Api-Key": {key}, "Origin": {"https://evil.example"},
			"Sec-Websocket-Extensions": {"permessage-deflate"}, "Authorization": {"Bearer " + key},
		}
		browser := &scriptedConn{rest: answer, size: 1 + int(size)}
		up, err := upgrade(browser, "127.0.0.1:9222", "/devtools/browser/1", client)
		assertHandshakeOnly(t, browser.written.Bytes())
		if err != nil {
			return
		}
		after := append(slices.Clone(up.Early), browser.rest...)
		end := endOfHead(answer)
		if end < 0 || !bytes.Equal(after, answer[end:]) || !bytes.HasPrefix(answer, []byte("HTTP/")) {
			t.Errorf("%q gave %q", answer, after)
		}
		header := http.Header{"X-Request-Id": {"1"}}
		copyHeaders(header, up.answer, "Connection", "Upgrade", "Sec-WebSocket-Accept", "Sec-WebSocket-Protocol")
		var out bytes.Buffer
		if err := writeHead(&out, "HTTP/1.1 101 Switching Protocols", header); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(&out)
		got, err := http.ReadResponse(r, nil)
		if err != nil || r.Buffered() > 0 || got.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("the client received %v and %d more bytes", err, r.Buffered())
		}
		for name := range got.Header {
			if !slices.Contains([]string{"Connection", "Upgrade", "Sec-Websocket-Accept", "Sec-Websocket-Protocol", "X-Request-Id"}, name) {
				t.Errorf("the client received %s", name)
			}
		}
	})
}

// assertHandshakeOnly checks the request that a server received.
func assertHandshakeOnly(t *testing.T, heard []byte) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(heard))
	got, err := http.ReadRequest(r)
	if err != nil || r.Buffered() > 0 || got.RequestURI != "/devtools/browser/1" || got.Host != "127.0.0.1:9222" || got.Method != http.MethodGet {
		t.Fatalf("the server received %q: %v", heard, err)
	}
	for name := range got.Header {
		if !slices.Contains([]string{"Connection", "Upgrade", "Sec-Websocket-Version", "Sec-Websocket-Key", "Sec-Websocket-Protocol"}, name) {
			t.Errorf("the server received %s", name)
		}
	}
}

// endOfHead returns the position of the first empty line, or -1.
func endOfHead(answer []byte) int {
	for start := 0; ; {
		n := bytes.IndexByte(answer[start:], '\n')
		if n < 0 {
			return -1
		}
		line := bytes.TrimRight(answer[start:start+n], "\r")
		if start += n + 1; len(line) == 0 {
			return start
		}
	}
}

// FuzzCheckHandshake compares with the WebSocket library, which is stricter only about
// keys.
func FuzzCheckHandshake(f *testing.F) {
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	f.Add("GET", "Upgrade", "", "websocket", "13", key)
	f.Add("GET", "keep-alive, UPGRADE ", "x", "h2c,WebSocket", "13", key)
	f.Add("GET", "keep-alive", "upgrade", "websocket", "13", key)
	f.Add("POST", "Upgrade", "", "websocket", "13", key)
	f.Add("GET", "upgrade-not", "", "websocket/13", "13", key)
	f.Add("GET", "Upgrade", "", "websocket", "8", key)
	f.Add("GET", "Upgrade", "", "websocket", "13", "")
	f.Add("GET", "Upgrade;q=1", "\tupgrade", "\u212Aeb", "13", "k")
	f.Fuzz(func(t *testing.T, method, connection, second, upgrade, version, sentKey string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method = method
		r.Header = http.Header{
			"Connection": {connection, second}, "Upgrade": {upgrade}, "Sec-Websocket-Version": {version}, "Sec-Websocket-Key": {key},
		}
		w := httptest.NewRecorder()
		_, err := websocket.Accept(w, r, nil)
		accepted := err == nil || w.Code == http.StatusNotImplemented // the connection of a recorder cannot be hijacked
		if ours := CheckHandshake(r); (ours == nil) != accepted {
			t.Errorf("%s, %q, %q, %q, %q: %v, the library: %v", method, connection, second, upgrade, version, ours, err)
		}
		r.Header.Set("Sec-WebSocket-Key", sentKey)
		if ours := CheckHandshake(r); (ours == nil) != (accepted && sentKey != "") {
			t.Errorf("with the key %q: %v", sentKey, ours)
		}
	})
}
