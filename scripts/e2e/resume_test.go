package e2e

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
)

// resumeCuts is the number of times that the connection is cut, unless RESUME_CUTS
// is set.
func resumeCuts() int { return testenv.Depth(15, 50) }

// cuttingProxy is a proxy between a client and a worker. It cuts every connection
// after a random time or number of bytes.
type cuttingProxy struct {
	net.Listener
	worker string
	cuts   atomic.Int64
	hung   atomic.Int64 // cuts without closing: the connection hangs

	mu    sync.Mutex
	conns []net.Conn
}

func newCuttingProxy(t *testing.T, worker string) *cuttingProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &cuttingProxy{Listener: listener, worker: worker}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.forward(client.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			conn.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	return s
}

// forward copies bytes until the cut, which can be in the handshake, inside a large
// message or between small ones. The connections are closed with FIN or RST, or
// they hang.
func (s *cuttingProxy) forward(client *net.TCPConn) {
	conn, err := net.Dial("tcp", s.worker)
	if err != nil {
		client.Close()
		return
	}
	worker := conn.(*net.TCPConn)
	s.mu.Lock()
	s.conns = append(s.conns, client, worker)
	s.mu.Unlock()
	limit, after := int64(1)<<40, time.Duration(rand.Int64N(int64(100*time.Millisecond)))
	if rand.IntN(2) == 0 {
		limit, after = rand.Int64N(1<<rand.IntN(20)), 10*time.Second
	}
	hang := rand.IntN(20) == 0
	var once sync.Once
	cut := func() {
		once.Do(func() {
			s.cuts.Add(1)
			if hang { // forward nothing, but keep the connections open
				s.hung.Add(1)
				_ = client.SetReadDeadline(time.Unix(1, 0))
				_ = worker.SetReadDeadline(time.Unix(1, 0))
				return
			}
			if rand.IntN(2) == 0 {
				_ = client.SetLinger(0)
				_ = worker.SetLinger(0)
			}
			client.Close()
			worker.Close()
		})
	}
	timer := time.AfterFunc(after, cut)
	defer timer.Stop()
	var both sync.WaitGroup
	for dst, src := range map[*net.TCPConn]*net.TCPConn{worker: client, client: worker} {
		both.Go(func() {
			_, _ = io.CopyN(dst, src, limit)
			cut()
		})
	}
	both.Wait()
}

func TestResume_LosesNoMessageAcrossCuts(t *testing.T) {
	t.Parallel()
	requireNoMessageLost(t, "")
}

// requireNoMessageLost keeps a page busy while connections are cut, with the transport of a
// module of the TypeScript SDK or, without one, that of the test.
func requireNoMessageLost(t *testing.T, module string) {
	t.Helper()
	enough := int64(resumeCuts())
	if cuts, err := strconv.ParseInt(os.Getenv("RESUME_CUTS"), 10, 64); err == nil {
		enough = cuts
	}
	env := newTestEnv(t)
	session := env.worker.launch(t, env.newLaunchRequest(t, true))
	proxy := newCuttingProxy(t, env.worker.address)
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]bool{"enough": proxy.cuts.Load() >= enough})
	}))
	defer control.Close()
	var result struct {
		Answers, WrongAnswers, Count, Events, WrongEvents, Sent, Bytes, Screenshots, Cuts int64
	}
	endpoint := strings.Replace(*session.WebSocketDebuggerUrl, strings.TrimPrefix(env.worker.url, "http://"), proxy.Addr().String(), 1)
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout+time.Duration(enough)*time.Second)
	defer cancel()
	began := time.Now()
	input := map[string]any{"endpoint": endpoint, "control": control.URL, "sdk": module}
	if err := runClient(exec.CommandContext(ctx, "node", "clients/resume.mjs"), input, &result); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cuts in %s, of which %d hung and the client noticed %d: %d responses, %d events, %d bytes in large results, %d screenshots",
		proxy.cuts.Load(), time.Since(began).Round(time.Second), proxy.hung.Load(), result.Cuts, result.Answers, result.Events, result.Bytes, result.Screenshots)
	if result.WrongAnswers != 0 || result.Answers != result.Count || result.Answers == 0 {
		t.Errorf("of %d responses %d are wrong, and the page counted %d calls", result.Answers, result.WrongAnswers, result.Count)
	}
	if result.WrongEvents != 0 || result.Events != result.Sent || result.Events == 0 {
		t.Errorf("of %d events %d are wrong, and the page sent %d", result.Events, result.WrongEvents, result.Sent)
	}
	if result.Cuts < enough/2 {
		t.Errorf("the client noticed %d cuts of %d", result.Cuts, proxy.cuts.Load())
	}
}

func TestResume_RefusesClientThatLeftWhileCut(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var came atomic.Int64
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			conn.Close()
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	var result struct{ Cuts int64 }
	runScript(t, "leave", map[string]any{"endpoint": "ws://" + listener.Addr().String()}, &result)
	if result.Cuts != 1 || came.Load() != 1 {
		t.Errorf("the client noticed %d cuts and connected %d times", result.Cuts, came.Load())
	}
}
