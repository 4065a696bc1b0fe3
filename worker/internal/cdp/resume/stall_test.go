package resume

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// newStallTest returns a connection whose browser reads nothing. It serves a client's
// socket, until served is closed.
func newStallTest(t *testing.T, worker net.Conn) (c *Conn, served <-chan struct{}) {
	t.Helper()
	browser, other := net.Pipe()
	t.Cleanup(func() { browser.Close(); other.Close() })
	c = newConn(Browser{
		Socket: &ws.Raw{Conn: browser}, Watch: func(net.Conn) func() { return func() {} }, Calls: intercept.New(intercept.Options{}),
	}, Options{ResumeTimeout: time.Minute, Buffer: 8 << 10}, new(atomic.Int64))
	c.limit = 1 << 20
	t.Cleanup(func() { c.close(nil, closeShutdown) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Serve(&ws.Raw{Conn: worker}, 0)
	}()
	return c, done
}

// A refused call is answered through the client's buffer, which is full: the client's
// reader waits there and cannot notice the end of the socket.
func TestServe_BrokenSocketDetachesDuringRefusedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, worker := net.Pipe()
		c, served := newStallTest(t, worker)
		c.bufferMessage(wsframe.FromServer(wsframe.Text, bytes.Repeat([]byte("x"), 4<<10))) // the client reads nothing
		if _, err := client.Write(wsframe.FromClient(wsframe.Text, []byte(`{"id":1,"method":"Extensions.loadUnpacked"}`))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		client.Close()
		synctest.Wait()
		select {
		case <-served:
		default:
			t.Fatal("the socket is still served after its end")
		}
		time.Sleep(c.resumeTimeout)
		synctest.Wait()
		if c.reason == nil || c.reason.status != Expired {
			t.Errorf("after the resume timeout, the connection has the close reason %v", c.reason)
		}
	})
}

// The client's reader waits for the browser, and its writer has nothing to send.
func TestServe_BrokenSocketDetachesWhileBrowserIsBlocked(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	worker, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, served := newStallTest(t, worker)
	message := wsframe.FromClient(wsframe.Text, bytes.Repeat([]byte("x"), maxQueued/2))
	for range 2 {
		if _, err := client.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, "the reader waits for the browser", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.received == 1
	})
	client.Close()
	testenv.Eventually(t, "the socket is detached", func() bool {
		select {
		case <-served:
			return true
		default:
			return false
		}
	})
}
