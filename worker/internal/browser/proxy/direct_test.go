package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

func TestDirect_SendsRequestUnchanged(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %q %v", r.Method, r.RequestURI, r.Header["Proxy-Connection"], r.Header["X-A"])
	}))
	defer origin.Close()
	f, _ := startForwarder(t, newPolicy(t, proxy.DefaultDenylist))
	for _, target := range []string{"/", "/a|b{c}?x={y}|z", "/%7e//x?", "//host/x", "/a%2fb"} {
		answer, reader := ask(t, dial(t, f), "GET", origin.URL+target+" HTTP/1.1\nHost: other.test\nProxy-Connection: keep-alive\nX-A: 1")
		text := make([]byte, answer.ContentLength)
		io.ReadFull(reader, text)
		if want := fmt.Sprintf("GET %s [] [1]", target); string(text) != want {
			t.Errorf("%s: %q, want %q", target, text, want)
		}
	}
	if bytesIn, out := f.Counts(); bytesIn != 0 || out != 0 {
		t.Errorf("counted %d and %d bytes without a proxy", bytesIn, out)
	}
}

func TestDirect_ReusesOriginConnection(t *testing.T) {
	var opened atomic.Int64
	origin := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	origin.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	origin.Start()
	defer origin.Close()
	f, _ := startForwarder(t, newPolicy(t, ""))
	for range 5 {
		do(t, clientOf(t, f), "POST", origin.URL, "x")
	}
	if opened.Load() != 1 {
		t.Errorf("got %d connections, want one", opened.Load())
	}
}

func TestDirect_PassesUploadsHintsAndTrailers(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "%d", len(body))
		w.Header().Set("X-Sum", "end")
	}))
	defer origin.Close()
	f, _ := startForwarder(t, newPolicy(t, ""))
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		if code == http.StatusEarlyHints && h.Get("Link") != "" {
			hints++
		}
		return nil
	}})
	request, err := http.NewRequestWithContext(ctx, "POST", origin.URL, io.LimitReader(zeroReader{}, 50<<20))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := clientOf(t, f).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || string(text) != fmt.Sprint(50<<20) || answer.Trailer.Get("X-Sum") != "end" || hints != 1 {
		t.Errorf("%q, %v, trailer %v, %d hints", text, err, answer.Trailer, hints)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestDirect_StreamsAnswersAndTheirEnd(t *testing.T) {
	proceed := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first")
		http.NewResponseController(w).Flush()
		<-proceed
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
	}))
	defer origin.Close()
	f, _ := startForwarder(t, newPolicy(t, ""))
	for _, path := range []string{"/whole", "/broken"} {
		answer, err := clientOf(t, f).Get(origin.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(answer.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		go func() { proceed <- struct{}{} }()
		if _, err := io.ReadAll(answer.Body); (err != nil) != (path == "/broken") {
			t.Errorf("%s: %v", path, err)
		}
		answer.Body.Close()
	}
}

// TestDirect_FailureAbortsConnection: a failed request gets no answer, as without a
// Forwarder.
func TestDirect_FailureAbortsConnection(t *testing.T) {
	gone := listenLoopback(t)
	gone.Close()
	silent := listenLoopback(t)
	go serve(silent, func(c net.Conn) error { _, err := http.ReadRequest(bufio.NewReader(c)); return err })
	mute := listenLoopback(t)
	go serve(mute, func(c net.Conn) error {
		_, err := io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
		return err
	})
	f, log := startWithResolver(t, newPolicy(t, ""), resolver(t, nil))
	for _, host := range []string{gone.Addr().String(), silent.Addr().String(), mute.Addr().String(), "unknown.test"} {
		if answer, err := clientOf(t, f).Get("http://" + host); err == nil {
			answer.Body.Close()
			t.Errorf("%s: %s", host, answer.Status)
		}
	}
	for _, target := range []string{gone.Addr().String(), "unknown.test:443"} {
		if answer, _ := ask(t, dial(t, f), "CONNECT", target+" HTTP/1.1\nHost: "+target); answer.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: %s", target, answer.Status)
		}
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("got a warning for a failed destination:\n%s", log)
	}
}

func TestDirect_LocalhostIsNotLookedUp(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		origin := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(echo)}}
		origin.Start()
		defer origin.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		// The resolver's wrong answers must not be used.
		f, _ := startWithResolver(t, newPolicy(t, ""), resolver(t, map[string]string{"localhost.": "192.0.2.1", "x.localhost.": "192.0.2.1"}))
		for _, host := range []string{"localhost", "LOCALHOST.", "x.localhost", "x.localhost."} {
			if answer, _ := do(t, clientOf(t, f), "GET", "http://"+host+":"+port+"/", ""); answer.StatusCode != http.StatusOK {
				t.Errorf("%s at %s: %s", host, address, answer.Status)
			}
			connect(t, f, host+":"+port)
		}
	}
}

func TestDirect_TunnelPassesHalfClose(t *testing.T) {
	l := listenLoopback(t)
	go serve(l, func(c net.Conn) error {
		question, err := io.ReadAll(c)
		for range 3 { // several writes after the end of the client's data
			time.Sleep(20 * time.Millisecond)
			fmt.Fprintf(c, "%d bytes, %v. ", len(question), err)
		}
		return err
	})
	f, _ := startForwarder(t, newPolicy(t, ""))
	c := dial(t, f)
	target := l.Addr().String()
	_, reader := ask(t, c, "CONNECT", target+" HTTP/1.1\nHost: "+target+"\n\nearly and") // sent together with the request
	io.WriteString(c, " late")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(reader); err != nil || string(answer) != strings.Repeat("18 bytes, <nil>. ", 3) {
		t.Errorf("answered %q, %v", answer, err)
	}
}

func TestDirect_TunnelEndsWithEitherSide(t *testing.T) {
	for name, end := range map[string]func(client, server net.Conn){
		"the client closes": func(client, _ net.Conn) { client.Close() },
		"the server closes": func(_, server net.Conn) { server.Close() },
		"the client resets": func(client, _ net.Conn) { client.(*net.TCPConn).SetLinger(0); client.Close() },
		"the server resets": func(_, server net.Conn) { server.(*net.TCPConn).SetLinger(0); server.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			l := listenLoopback(t)
			f, _ := startForwarder(t, newPolicy(t, ""))
			client, _ := connect(t, f, l.Addr().String())
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			end(client, server)
			for _, c := range []net.Conn{client, server} {
				c.SetReadDeadline(time.Now().Add(5 * time.Second))
				if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
					t.Errorf("one side is still open: %v", err)
				}
				c.Close()
			}
			eventually(t, 5*time.Second, "the tunnel has ended", func() bool { return !strings.Contains(string(stacks()), "proxy.splice(") })
		})
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
