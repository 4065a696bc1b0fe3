package intercept

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
)

// memoryConn is a connection in memory of which each direction can end alone.
type memoryConn struct {
	net.Conn // what it reads
	output   net.Conn
}

func memoryPair() (side, other *memoryConn) {
	first, firstEnd := net.Pipe()
	second, secondEnd := net.Pipe()
	return &memoryConn{first, secondEnd}, &memoryConn{second, firstEnd}
}

func (c *memoryConn) Write(p []byte) (int, error) {
	if len(p) == 0 { // a pipe would wait for a reader
		return 0, nil
	}
	return c.output.Write(p)
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error { return c.output.SetWriteDeadline(t) }
func (c *memoryConn) CloseWrite() error                  { return c.output.Close() }
func (c *memoryConn) Close() error                       { return errors.Join(c.Conn.Close(), c.output.Close()) }

// relayTest is a running Relay with both of its peers.
type relayTest struct {
	t               *testing.T
	client, browser *memoryConn
	stop            context.CancelFunc
	ended           chan struct{}
	began           time.Time
}

func runRelay(t *testing.T, o RelayOptions) *relayTest {
	client, clientSide := memoryPair()
	browser, browserSide := memoryPair()
	r := &relayTest{t: t, client: client, browser: browser, ended: make(chan struct{}), began: time.Now()}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	relay := NewRelay(&ws.Raw{Conn: clientSide}, &ws.Raw{Conn: browserSide}, o)
	go func() {
		defer close(r.ended)
		relay.Run(ctx)
	}()
	return r
}

func (r *relayTest) write(conn *memoryConn, p []byte) {
	r.t.Helper()
	if _, err := conn.Write(p); err != nil {
		r.t.Error(err)
	}
}

// wants fails unless a peer reads this until the end of the connection.
func (r *relayTest) wants(conn *memoryConn, want []byte) {
	r.t.Helper()
	if got, err := io.ReadAll(conn); err != nil || string(got) != string(want) {
		r.t.Errorf("read %q, %v, want %q", got, err, want)
	}
}

// endsAfter fails unless the relay ends after this time, which no test waits for.
func (r *relayTest) endsAfter(want time.Duration) {
	r.t.Helper()
	<-r.ended
	if took := time.Since(r.began); took != want {
		r.t.Errorf("ended after %v, want %v", took, want)
	}
}

var (
	fromClient  = wsframe.FromClient(wsframe.Text, []byte("question"))
	fromBrowser = wsframe.FromServer(wsframe.Text, []byte("answer"))
	idleFrame   = wsframe.FromServer(wsframe.Close, wsframe.ClosePayload(wsframe.Normal, "idle"))
)

// endedIdle is an End of a session that has ended.
func endedIdle(context.Context, Ending) (status uint16, reason string) { return wsframe.Normal, "idle" }

func TestRelay_DeliversAfterEndOfOneSide(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := runRelay(t, RelayOptions{})
			r.write(r.client, fromClient[:3])
			go func() {
				r.write(r.client, fromClient[3:])
				_ = r.client.CloseWrite()
			}()
			r.wants(r.browser, fromClient)
			time.Sleep(drainTimeout / 2)
			go func() {
				r.write(r.browser, fromBrowser)
				_ = r.browser.CloseWrite()
			}()
			r.wants(r.client, fromBrowser)
			r.endsAfter(drainTimeout / 2)
		})
	})
	t.Run("browser", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := runRelay(t, RelayOptions{End: endedIdle})
			go func() {
				r.write(r.browser, fromBrowser)
				_ = r.browser.CloseWrite()
			}()
			r.wants(r.client, append(fromBrowser[:len(fromBrowser):len(fromBrowser)], idleFrame...))
			time.Sleep(drainTimeout / 2)
			go func() {
				r.write(r.client, fromClient)
				_ = r.client.CloseWrite()
			}()
			r.wants(r.browser, fromClient)
			r.endsAfter(drainTimeout / 2)
		})
	})
}

func TestRelay_LimitsTimeOfEnd(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	big := wsframe.FromServer(wsframe.Text, make([]byte, 2*maxBuffer))
	for name, tc := range map[string]struct {
		options RelayOptions
		end     func(r *relayTest)
		took    time.Duration
	}{
		"the browser does not close its side": {RelayOptions{}, func(r *relayTest) { _ = r.client.CloseWrite() }, drainTimeout},
		"the client does not close its side":  {RelayOptions{}, func(r *relayTest) { _ = r.browser.CloseWrite() }, drainTimeout},
		"the client does not read the last message": {RelayOptions{Done: closed}, func(r *relayTest) {
			_, _ = r.browser.Write(big)
		}, drainTimeout},
		"the client does not read the close frame": {RelayOptions{End: endedIdle}, func(r *relayTest) { _ = r.browser.CloseWrite() }, drainTimeout},
		"the browser does not answer a close frame": {RelayOptions{}, func(r *relayTest) {
			go func() { _, _ = io.Copy(io.Discard, r.browser) }()
			r.write(r.client, wsframe.FromClient(wsframe.Close, nil))
		}, 2 * drainTimeout},
		"the relay is stopped":                                {RelayOptions{}, func(r *relayTest) { r.stop() }, 0},
		"the relay is stopped, and a message waits":           {RelayOptions{}, func(r *relayTest) { go func() { _, _ = r.browser.Write(big) }(); synctest.Wait(); r.stop() }, 0},
		"the relay is stopped, and the client does not read":  {RelayOptions{End: endedIdle}, func(r *relayTest) { r.stop(); _ = r.browser.CloseWrite() }, drainTimeout},
		"the client has cut its connection, and nobody reads": {RelayOptions{}, func(r *relayTest) { _ = r.client.Close() }, drainTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := runRelay(t, tc.options)
				synctest.Wait()
				go tc.end(r)
				r.endsAfter(tc.took)
				r.stop()
				_, _ = r.client.Close(), r.browser.Close()
			})
		})
	}
}

// The client sees no end before End has returned, whatever ends first.
func TestRelay_ShowsEndAfterItsRecord(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	for name, tc := range map[string]struct {
		done <-chan struct{}
		end  func(r *relayTest)
		want Ending
	}{
		"the browser has ended":         {closed, func(*relayTest) {}, BrowserLeft},
		"its side has ended":            {nil, func(r *relayTest) { _ = r.browser.CloseWrite() }, BrowserLeft},
		"the browser reads no more":     {nil, func(r *relayTest) { _ = r.browser.Conn.Close(); _, _ = r.client.Write(fromClient) }, BrowserLeft},
		"the client's side has ended":   {nil, func(r *relayTest) { _ = r.client.CloseWrite() }, ClientLeft},
		"the client has sent a bad one": {nil, func(r *relayTest) { _, _ = r.client.Write(fromBrowser) }, ClientLeft},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record, got := make(chan struct{}), make(chan Ending, 1)
				r := runRelay(t, RelayOptions{Done: tc.done, End: func(_ context.Context, e Ending) (uint16, string) {
					got <- e
					<-record
					return wsframe.Normal, "idle"
				}})
				go tc.end(r)
				readErr := make(chan error, 1)
				go func() {
					_, err := r.client.Read(make([]byte, 1))
					readErr <- err
				}()
				if e := <-got; e != tc.want {
					t.Errorf("the relay ends because of %d, want %d", e, tc.want)
				}
				synctest.Wait()
				if len(readErr) > 0 {
					t.Error("the client sees the end before its record")
				}
				close(record)
				_ = r.browser.Close()
				if err := <-readErr; err != nil {
					t.Errorf("the client gets no close frame: %v", err)
				}
				_, _ = io.Copy(io.Discard, r.client)
				_ = r.client.Close()
				<-r.ended
			})
		})
	}
}

// A wait for the record ends with the client.
func TestRelay_EndsWithClientBeforeRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runRelay(t, RelayOptions{End: func(ctx context.Context, _ Ending) (uint16, string) {
			<-ctx.Done()
			return 0, ""
		}})
		_ = r.browser.Close()
		synctest.Wait()
		_ = r.client.Close()
		r.endsAfter(0)
	})
}
