package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipeConn is one end of a connection in memory.
type pipeConn struct{ net.Conn }

// CloseWrite implements duplex.
func (c pipeConn) CloseWrite() error { return c.Close() }

// pipeRoute connects to the other end of a pipe; nil: to nothing.
type pipeRoute struct {
	outbound
	server net.Conn
}

func (p pipeRoute) connect(ctx context.Context, _ string, _ http.Header) (duplex, error) {
	if err := ctx.Err(); err != nil || p.server == nil {
		return nil, net.ErrClosed
	}
	return pipeConn{p.server}, nil
}

const pipeAddress = "site.test:443"

// startTunnelTLS serves a tunnel, and returns its ends and a channel that is closed at its end. again is the
// end of the connection that the browser gets if the handshake with the server fails.
func startTunnelTLS(t testing.TB) (client, server, again net.Conn, ended chan struct{}) {
	t.Helper()
	f := &Forwarder{log: slog.New(slog.DiscardHandler)}
	certificate, err := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "robot"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.PresentCertificates(ClientCertificates{ByAddress: map[string]tls.Certificate{pipeAddress: *certificate}}); err != nil {
		t.Fatal(err)
	}
	client, clientEnd := net.Pipe()
	server, serverEnd := net.Pipe()
	again, againEnd := net.Pipe()
	request := (&http.Request{Method: http.MethodConnect, Host: pipeAddress}).WithContext(t.Context())
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		f.tunnelTLS(request, f.terminatorFor(request.Host), pipeConn{clientEnd}, pipeConn{serverEnd}, &route{outbound: pipeRoute{server: againEnd}})
		_ = clientEnd.Close()
		_ = serverEnd.Close()
		_ = againEnd.Close()
	}()
	t.Cleanup(func() {
		_, _, _ = client.Close(), server.Close(), again.Close()
		<-ended
	})
	return client, server, again, ended
}

// clientHello returns the first bytes of a TLS client.
func clientHello(t testing.TB) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: "site.test", NextProtos: []string{"h2", "http/1.1"}}).Handshake()
	}()
	record := make([]byte, 5)
	if _, err := io.ReadFull(far, record); err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, int(record[3])<<8|int(record[4]))
	if _, err := io.ReadFull(far, hello); err != nil {
		t.Fatal(err)
	}
	return append(record, hello...)
}

// TestTunnelTLS_SlowHandshakeEnds: neither a browser nor a server can hold a tunnel by an unfinished handshake.
func TestTunnelTLS_SlowHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hello := clientHello(t)
		for name, send := range map[string]func(client net.Conn){
			"no hello":        func(net.Conn) {},
			"a part of it":    func(client net.Conn) { _, _ = client.Write(hello[:100]) },
			"a silent server": func(client net.Conn) { _, _ = client.Write(hello) },
			"byte by byte": func(client net.Conn) {
				for i := range hello {
					if _, err := client.Write(hello[i : i+1]); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			},
		} {
			client, server, _, ended := startTunnelTLS(t)
			var others sync.WaitGroup
			others.Go(func() { _, _ = io.Copy(io.Discard, server) })
			begin := time.Now()
			others.Go(func() { send(client) })
			<-ended
			if took := time.Since(begin); took != connectTimeout {
				t.Errorf("%s: the tunnel ended after %v, want %v", name, took, connectTimeout)
			}
			others.Wait()
		}
	})
}

// TestTunnelTLS_HugeHelloEnds: what is kept of a hello is bounded.
func TestTunnelTLS_HugeHelloEnds(t *testing.T) {
	client, _, _, ended := startTunnelTLS(t)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	record := append([]byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, make([]byte, 0x4000-4)...)
	sent := 0
	for sent < 10<<20 {
		n, err := client.Write(record)
		sent += n
		if err != nil {
			break
		}
	}
	<-ended
	if sent > 100<<10 {
		t.Errorf("the forwarder read %d bytes of a hello", sent)
	}
}

// FuzzTunnelTLS_RepeatsHello: if the handshake with the server fails, the new connection gets exactly what the
// browser has sent, however it was split.
func FuzzTunnelTLS_RepeatsHello(f *testing.F) {
	f.Add([]byte{255}, []byte(nil))
	f.Add([]byte{1, 4, 1}, []byte("tail"))
	f.Add([]byte{0, 5, 200}, bytes.Repeat([]byte{7}, 2000))
	f.Fuzz(func(t *testing.T, sizes, tail []byte) {
		client, server, again, ended := startTunnelTLS(t)
		_ = server.Close()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		sent := append(clientHello(t), tail...)
		received := make(chan []byte, 1)
		go func() {
			data, _ := io.ReadAll(again)
			received <- data
		}()
		for rest := sent; len(rest) > 0; {
			n := len(rest)
			if len(sizes) > 0 {
				n, sizes = min(n, int(sizes[0])+1), sizes[1:]
			}
			if _, err := client.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		_ = client.Close()
		<-ended
		if got := <-received; !bytes.Equal(got, sent) {
			t.Errorf("the server got %d bytes, want the %d that were sent", len(got), len(sent))
		}
	})
}
