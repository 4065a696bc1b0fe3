package proxy_test

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

const (
	username = "robot-7f3a"
	password = "pass word:ÿ-91c4"
)

// fakeInternet is a proxy that requires a user name and password and resolves every
// name to the origin.
type fakeInternet struct {
	proxy.Upstream
	origin string // host:port of every destination

	mu      sync.Mutex
	logins  []string // user:password of each attempt
	targets []string
	headers []http.Header // of plain requests
}

var kinds = []string{"http", "https", "socks5"}

// newFakeInternet starts a proxy that accepts the credentials of its Upstream.
func newFakeInternet(t *testing.T, kind, origin string) *fakeInternet {
	t.Helper()
	o := &fakeInternet{origin: origin, Upstream: proxy.Upstream{Username: username, Password: password}}
	switch kind {
	case "http", "https":
		server := httptest.NewUnstartedServer(o)
		if kind == "http" {
			server.Start()
		} else {
			server.StartTLS()
			o.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		}
		t.Cleanup(server.Close)
		o.Server = server.URL
	case "socks5":
		l := listenLoopback(t)
		go serve(l, o.serveSOCKS)
		o.Server = "socks5://" + l.Addr().String()
	}
	return o
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// serve handles each connection in a goroutine and closes it.
func serve(l net.Listener, handle func(net.Conn) error) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			handle(c)
		}()
	}
}

func (o *fakeInternet) record(login, target string, header http.Header) (ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.logins = append(o.logins, login)
	o.targets = append(o.targets, target)
	if header != nil {
		o.headers = append(o.headers, header.Clone())
	}
	return login == username+":"+password
}

func (o *fakeInternet) requests() (logins, targets []string, headers []http.Header) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logins, o.targets, o.headers
}

// ServeHTTP is the HTTP proxy.
func (o *fakeInternet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	encoded, _ := strings.CutPrefix(r.Header.Get("Proxy-Authorization"), "Basic ")
	login, _ := base64.StdEncoding.DecodeString(encoded)
	header := r.Header
	if r.Method == http.MethodConnect {
		header = nil
	}
	if !o.record(string(login), r.Host, header) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="outside"`)
		http.Error(w, "proxy authentication required", http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		forward := httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.Host, p.Out.URL.Host = p.In.Host, o.origin
			p.Out.URL.RawQuery = p.In.URL.RawQuery
		}}
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		forward.ServeHTTP(w, r)
		return
	}
	server, err := net.Dial("tcp", o.origin)
	if err != nil {
		http.Error(w, "unreachable", http.StatusServiceUnavailable)
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	io.WriteString(client, "HTTP/1.1 200 OK\r\nX-Proxy: outside\r\n\r\n")
	join(client, buffered.Reader, server)
}

// serveSOCKS is the SOCKS5 proxy.
func (o *fakeInternet) serveSOCKS(c net.Conn) error {
	r := bufio.NewReader(c)
	text := func() string {
		n, _ := r.ReadByte()
		b := make([]byte, n)
		io.ReadFull(r, b)
		return string(b)
	}
	if version, _ := r.ReadByte(); version != 5 {
		return errors.New("no SOCKS5")
	}
	if !strings.Contains(text(), "\x02") {
		o.record("", "", nil)
		c.Write([]byte{5, 0xff})
		return errors.New("no password offered")
	}
	c.Write([]byte{5, 2})
	r.ReadByte()
	login := text() + ":" + text()
	if login != username+":"+password {
		o.record(login, "", nil)
		c.Write([]byte{1, 1})
		return errors.New("wrong password")
	}
	c.Write([]byte{1, 0})
	request := make([]byte, 4)
	if _, err := io.ReadFull(r, request); err != nil {
		return err
	}
	var host string
	switch request[3] {
	case 1:
		ip := make(net.IP, 4)
		io.ReadFull(r, ip)
		host = ip.String()
	case 3:
		host = text()
	case 4:
		ip := make(net.IP, 16)
		io.ReadFull(r, ip)
		host = ip.String()
	}
	port := make([]byte, 2)
	if _, err := io.ReadFull(r, port); err != nil {
		return err
	}
	o.record(login, net.JoinHostPort(host, strconv.Itoa(int(port[0])<<8|int(port[1]))), nil)
	server, err := net.Dial("tcp", o.origin)
	if err != nil {
		c.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
		return err
	}
	// An answer with a bound name, its longest form.
	c.Write(append([]byte{5, 0, 0, 3, 4}, "here\x00\x50"...))
	join(c, r, server)
	return nil
}

// join copies in both directions until both have ended.
func join(client net.Conn, fromClient io.Reader, server net.Conn) {
	defer server.Close()
	var up sync.WaitGroup
	up.Go(func() {
		io.Copy(server, fromClient)
		server.(*net.TCPConn).CloseWrite()
	})
	io.Copy(client, server)
	client.(interface{ CloseWrite() error }).CloseWrite()
	up.Wait()
}
