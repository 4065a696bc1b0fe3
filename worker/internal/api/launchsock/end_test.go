package launchsock_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp/wsframe"
	"github.com/browser-svc/svc/worker/internal/cloud/report"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// reports calls beforeRecord.
type reports struct {
	*report.Reporter
	fixture *fixture
}

func (r reports) Ended(ended launch.Ended) {
	if r.fixture.beforeRecord != nil {
		r.fixture.beforeRecord()
	}
	r.Reporter.Ended(ended)
}

// listener returns connections with the hooks of the fixture.
type listener struct {
	net.Listener
	fixture *fixture
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || l.fixture.cuts == nil && l.fixture.answered == nil {
		return conn, err
	}
	return heldConn{conn.(*net.TCPConn), l.fixture}, nil
}

type heldConn struct {
	*net.TCPConn
	fixture *fixture
}

func (c heldConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if c.fixture.cuts != nil && errors.Is(err, io.EOF) {
		<-c.fixture.cuts
	}
	return n, err
}

func (c heldConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if c.fixture.answered != nil && bytes.HasPrefix(p, []byte("HTTP/1.1 101")) {
		<-c.fixture.answered
	}
	return n, err
}

// endSeen returns the answer to the call with the id 1 and the close frame among frames.
func endSeen(frames []byte) (answered bool, closed *wsframe.Message) {
	reader := wsframe.NewReader(bytes.NewReader(frames), false, 1<<20)
	for {
		m, err := reader.Next()
		if err != nil {
			return answered, closed
		}
		if m.Opcode == wsframe.Close {
			closed = &m
		}
		answered = answered || bytes.HasPrefix(m.Payload(), []byte(`{"id":1,`))
	}
}

// ending is a way in which a session ends.
type ending struct {
	end      func(*testing.T, *fixture, net.Conn, session.Session)
	answered bool   // the call with the id 1 certainly is
	status   uint16 // of the close frame
}

// endings returns all ways by name.
func endings() map[string]ending {
	write := func(frame []byte) func(*testing.T, *fixture, net.Conn, session.Session) {
		return func(t *testing.T, _ *fixture, conn net.Conn, _ session.Session) {
			if _, err := conn.Write(frame); err != nil {
				t.Error(err)
			}
		}
	}
	closeFrame := wsframe.FromClient(wsframe.Close, wsframe.ClosePayload(wsframe.Normal, ""))
	closeCall := wsframe.FromClient(wsframe.Text, []byte(`{"id":1,"method":"Browser.close"}`))
	return map[string]ending{
		"close frame":                   {write(closeFrame), false, wsframe.Normal},
		"Browser.close":                 {write(closeCall), true, wsframe.Normal},
		"Browser.close, close frame":    {write(append(bytes.Clone(closeCall), closeFrame...)), false, wsframe.Normal}, // it may answer
		"invalid frame":                 {write([]byte{0x81, 0x01, 'x'}), false, wsframe.ProtocolError},
		"end of what the client sends":  {func(_ *testing.T, _ *fixture, conn net.Conn, _ session.Session) { _ = conn.(*net.TCPConn).CloseWrite() }, false, wsframe.Normal},
		"crash":                         {crash, false, wsframe.Normal},
		"end of the service of /launch": {func(_ *testing.T, w *fixture, _ net.Conn, _ session.Session) { w.Close() }, false, wsframe.GoingAway},
		"end of the session, by request": {func(t *testing.T, w *fixture, _ net.Conn, s session.Session) {
			_, _ = w.launches.Kill(t.Context(), s.ID)
		}, false, wsframe.Normal},
	}
}

// A client sees the end of a session only when it is recorded, so that its next launch is
// not refused. While the worker records it, the client gets nothing.
func TestRelay_ShowsEndWhenItIsRecorded(t *testing.T) {
	for name, tc := range endings() {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			recording, record := make(chan struct{}), make(chan struct{})
			w.beforeRecord = func() { close(recording); <-record }
			conn := w.raw(t)
			r := bufio.NewReader(conn)
			if answer, err := http.ReadResponse(r, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(answer, err)
			}
			go tc.end(t, w, conn, w.onlySession(t))
			<-recording
			received, ended := testenv.Received(t, conn)
			if answered, closed := endSeen(received); ended || answered || closed != nil {
				t.Errorf("before the record, the client sees the end: end of the connection %v, answer %v, close frame %v", ended, answered, closed)
			}
			close(record)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			rest, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			answered, closed := endSeen(append(received, rest...))
			if !answered && tc.answered || closed == nil {
				t.Fatalf("answered: %v, close frame: %v", answered, closed)
			}
			if status, _ := wsframe.ReadClose(closed.Payload()); status != tc.status {
				t.Errorf("closed with %d, want %d", status, tc.status)
			}
		})
	}
}

func crash(t *testing.T, w *fixture, _ net.Conn, s session.Session) {
	if running, ok := w.launches.Running(s.LaunchID); ok {
		_ = syscall.Kill(running.Browser.PID(), syscall.SIGKILL)
	}
}

// A client that cuts its connection sees no end. Its next launch is not refused, whatever
// the worker has noticed so far.
func TestLaunch_WaitsForClientThatHasCutConnection(t *testing.T) {
	for name, hold := range map[string]func(w *fixture, until chan struct{}){
		"the relay has not started": func(w *fixture, until chan struct{}) { w.answered = until },
		"the cut is not read":       func(w *fixture, until chan struct{}) { w.cuts = until },
		"the end is not recorded":   func(w *fixture, until chan struct{}) { w.beforeRecord = func() { <-until } },
	} {
		t.Run(name, func(t *testing.T) {
			w, release := newFixture(t), make(chan struct{})
			hold(w, release)
			first := w.raw(t)
			if answer, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(answer, err)
			}
			ended := w.onlySession(t)
			w.cloud.Limit(1)
			_ = first.Close()
			launched := make(chan error, 1)
			go func() {
				conn, err := ws.Dial(t.Context(), w.url(url.Values{"profileId": {w.profile.String()}}), key(callersKey), ws.Options{})
				if err == nil {
					defer func() { _ = conn.CloseNow() }()
				}
				launched <- err
			}()
			testenv.Eventually(t, "the cloud refuses the next launch", func() bool { return w.cloud.CallCount(cloudtest.Authorize) == 2 })
			close(release)
			if err := <-launched; err != nil {
				t.Error(err)
			}
			w.awaitEnd(t, ended.ID, session.Killed, session.ClientClose)
		})
	}
}
