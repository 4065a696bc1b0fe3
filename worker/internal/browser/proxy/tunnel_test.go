package proxy_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

func TestTunnel_CarriesDataBothWaysConcurrently(t *testing.T) {
	const size = 10 << 20
	there, back := make([]byte, size), make([]byte, size)
	rand.Read(there)
	rand.Read(back)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			received := make(chan [32]byte, 1)
			l := listenLoopback(t)
			go serve(l, func(c net.Conn) error {
				var writing sync.WaitGroup
				writing.Go(func() { c.Write(back) })
				hash := sha256.New()
				io.CopyN(hash, c, size)
				writing.Wait()
				received <- [32]byte(hash.Sum(nil))
				return nil
			})
			f, _ := startWithUpstream(t, newFakeInternet(t, kind, l.Addr().String()).Upstream)
			c, reader := connect(t, f, "site.test:443")
			begin := time.Now()
			go c.Write(there)
			got := make([]byte, size)
			if _, err := io.ReadFull(reader, got); err != nil {
				t.Fatal(err)
			}
			if sha256.Sum256(there) != <-received || !bytes.Equal(got, back) {
				t.Error("the received data differs from the sent data")
			}
			bytesIn, out := f.Counts()
			t.Logf("%v; counted in %d, out %d", time.Since(begin), bytesIn, out)
			for _, n := range []int64{bytesIn, out} {
				if n < size || n > size+size/50 {
					t.Errorf("counted in %d, out %d; want a little more than %d", bytesIn, out, size)
				}
			}
		})
	}
}

func TestTunnel_PassesHalfClose(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := listenLoopback(t)
			go serve(l, func(c net.Conn) error {
				question, err := io.ReadAll(c)
				fmt.Fprintf(c, "%d bytes, %v", len(question), err)
				return err
			})
			f, _ := startWithUpstream(t, newFakeInternet(t, kind, l.Addr().String()).Upstream)
			c, reader := connect(t, f, "site.test:443")
			if _, err := io.WriteString(c, "question"); err != nil {
				t.Fatal(err)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(reader); err != nil || string(answer) != "8 bytes, <nil>" {
				t.Errorf("answered %q, %v", answer, err)
			}
		})
	}
}

func TestTunnel_KeepsDataSentWithCONNECT(t *testing.T) {
	l := listenLoopback(t)
	go serve(l, func(c net.Conn) error {
		_, err := io.CopyN(c, c, 5)
		return err
	})
	f, _ := startWithUpstream(t, newFakeInternet(t, "http", l.Addr().String()).Upstream)
	_, reader := ask(t, dial(t, f), "CONNECT", "site.test:443 HTTP/1.1\nHost: site.test:443\n\nearly")
	early := make([]byte, 5)
	if _, err := io.ReadFull(reader, early); err != nil || string(early) != "early" {
		t.Errorf("got %q back, %v", early, err)
	}
}

func TestForwarder_PassesUpgrade(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "shout" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
		word := make([]byte, 4)
		io.ReadFull(buffered, word)
		c.Write(bytes.ToUpper(word))
	}))
	defer origin.Close()
	for _, kind := range kinds {
		f, _ := startWithUpstream(t, newFakeInternet(t, kind, hostOf(t, origin.URL)).Upstream)
		c := dial(t, f)
		answer, reader := ask(t, c, "GET", "http://site.test/ HTTP/1.1\nHost: site.test\nConnection: Upgrade\nUpgrade: shout")
		if answer.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("%s: %s", kind, answer.Status)
			continue
		}
		io.WriteString(c, "word")
		if text, err := io.ReadAll(reader); err != nil || string(text) != "WORD" {
			t.Errorf("%s: %q, %v", kind, text, err)
		}
	}
}

func TestForwarder_CloseLeaksNoGoroutine(t *testing.T) {
	wait := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			http.NewResponseController(w).Flush()
			<-wait
		}
	}))
	defer origin.Close()
	defer close(wait)
	silent := listenLoopback(t) // accepts connections in the kernel's queue and never answers
	t.Run("direct", func(t *testing.T) {
		f, _ := startWithResolver(t, newPolicy(t, ""), resolver(t, map[string]string{"site.test.": "127.0.0.1"}))
		clients := []*net.TCPConn{dial(t, f)}
		for _, request := range []string{
			"CONNECT " + hostOf(t, origin.URL) + " HTTP/1.1\r\nHost: x\r\n\r\n",
			"GET " + origin.URL + "/slow HTTP/1.1\r\nHost: x\r\n\r\n",
			"GET " + origin.URL + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
			"CONNECT " + silent.Addr().String() + " HTTP/1.1\r\nHost: x\r\n\r\n",
			"GET http://" + silent.Addr().String() + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			c := dial(t, f)
			io.WriteString(c, request)
			clients = append(clients, c)
		}
		eventually(t, 5*time.Second, "all requests in progress", func() bool {
			return bytes.Count(stacks(), []byte("proxy.splice(")) == 2 && bytes.Count(stacks(), []byte("proxy.(*Forwarder).forwardPlain(")) == 2
		})
		begin := time.Now()
		f.Close()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		for _, c := range clients {
			io.Copy(io.Discard, c)
		}
		if time.Since(begin) > 5*time.Second {
			t.Error("a client's connection is still open")
		}
		eventually(t, 5*time.Second, "no goroutine left", func() bool { return !holdsForwarder() })
	})
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o := newFakeInternet(t, kind, hostOf(t, origin.URL))
			for _, upstream := range []proxy.Upstream{o.Upstream, {Server: kind + "://" + silent.Addr().String(), Username: username, Password: password}} {
				f, _ := startWithUpstream(t, upstream)
				clients := []*net.TCPConn{dial(t, f)} // a client that sends no request
				for _, request := range []string{
					"CONNECT site.test:80 HTTP/1.1\r\nHost: site.test:80\r\n\r\n",
					"GET http://site.test/slow HTTP/1.1\r\nHost: site.test\r\n\r\n",
					"POST http://site.test/slow HTTP/1.1\r\nHost: site.test\r\nContent-Length: 10\r\n\r\nhalf",
					"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n", // kept alive
				} {
					c := dial(t, f)
					io.WriteString(c, request)
					clients = append(clients, c)
				}
				eventually(t, 5*time.Second, "all requests in progress", func() bool {
					return bytes.Count(stacks(), []byte("proxy.(*Forwarder).ServeHTTP(")) >= 3
				})
				if upstream.Server == o.Server {
					// The last two requests may share a connection and its
					// authentication.
					eventually(t, 5*time.Second, "the upstream has the requests", func() bool { logins, _, _ := o.requests(); return len(logins) >= 3 })
				}
				begin := time.Now()
				f.Close()
				if took := time.Since(begin); took > time.Second {
					t.Errorf("Close took %v", took)
				}
				for _, c := range clients {
					io.Copy(io.Discard, c) // ends with the connection or at the deadline of dial
				}
				if time.Since(begin) > 5*time.Second {
					t.Error("a client's connection is still open")
				}
				eventually(t, 5*time.Second, "no goroutine left", func() bool { return !holdsForwarder() })
			}
		})
	}
}

func TestForwarder_CloseEndsDialInProgress(t *testing.T) {
	f, _ := startWithUpstream(t, proxy.Upstream{Server: "http://" + silentListener(t)})
	for _, request := range []string{"CONNECT site.test:80 HTTP/1.1\r\nHost: site.test:80\r\n\r\n", "GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n"} {
		c := dial(t, f)
		io.WriteString(c, request)
	}
	eventually(t, 5*time.Second, "two dials", func() bool { return bytes.Count(stacks(), []byte("proxy.(*connSet).dial(")) == 2 })
	begin := time.Now()
	f.Close()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	eventually(t, 5*time.Second, "no goroutine left", func() bool { return !holdsForwarder() })
}

// silentListener returns an address at which connections are neither accepted nor
// refused: its queue of length zero is full.
func silentListener(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 10 {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue did not fill up")
	return ""
}

// holdsForwarder reports whether a goroutine runs code of the package, including
// those of net/http that use its connections.
func holdsForwarder() bool { return bytes.Contains(stacks(), []byte("internal/proxy.")) }

func stacks() []byte {
	all := make([]byte, 4<<20)
	return all[:runtime.Stack(all, true)]
}
