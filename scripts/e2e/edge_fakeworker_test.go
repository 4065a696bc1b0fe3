package e2e

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// fakeWorker returns the responses of a worker that an edge depends on.
type fakeWorker struct {
	*httptest.Server
	unready  atomic.Bool  // the worker is full or draining
	launches atomic.Int64 // accepted launches
	refused  atomic.Int64 // refused launches
	drains   atomic.Int64 // POST /fleet/drain
}

// unreadyBody is the response of a worker that is not ready.
const unreadyBody = `{"success":false,"error":{"code":"EXTERNAL_SERVICE_ERROR","message":"This worker is full."}}`

func newFakeWorker(t *testing.T, id string) *fakeWorker {
	t.Helper()
	s := &fakeWorker{}
	mux := http.NewServeMux()
	refuse := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, unreadyBody)
	}
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" || r.ContentLength > 0 {
			t.Errorf("a readiness check of %s contains a launch: %d bytes, query %.20q", id, r.ContentLength, r.URL.RawQuery)
		}
		if s.unready.Load() {
			refuse(w)
		}
	})
	launch := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if s.unready.Load() {
			s.refused.Add(1)
			refuse(w)
			return
		}
		s.launches.Add(1)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}
	mux.HandleFunc("POST /sessions/profile", launch)
	mux.HandleFunc("POST /w/"+id+"/sessions/profile", launch)
	mux.HandleFunc("POST /fleet/drain", func(w http.ResponseWriter, _ *http.Request) {
		s.drains.Add(1)
		refuse(w)
	})
	mux.HandleFunc("/w/"+id+"/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, id) })
	for _, path := range []string{"/launch", "/playwright"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if s.unready.Load() {
				refuse(w)
				return
			}
			fmt.Fprint(w, r.URL.Query().Get("env"))
		})
	}
	s.Server = httptest.NewUnstartedServer(mux)
	s.Config.MaxHeaderBytes = 1 << 20 // as the worker's
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *fakeWorker) address() string { return s.Listener.Addr().String() }

// TestEdges_LogNoSecret sends requests that fail in each way that a load balancer
// logs, and searches all its files for the secrets.
func TestEdges_LogNoSecret(t *testing.T) {
	t.Parallel()
	cutting, err := net.Listen("tcp", "127.0.0.1:0") // sends half a response, or none
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cutting.Close() })
	go func() {
		for i := 0; ; i++ {
			conn, err := cutting.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			if i%2 == 0 {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			}
			conn.Close()
		}
	}()
	for i := range balancers {
		e := newEdge(t, i)
		t.Run(e.name, func(t *testing.T) {
			e.start(t, "127.0.0.1:"+freePort(t), cutting.Addr().String())
			secret := "secret" + rand.Text()
			for _, path := range []string{
				"/w/worker-1/browsers/x/view?ct=", "/w/worker-1/browsers/x/vnc?t=", "/w/worker-2/browsers/x/json?x=1&ct=", "/w/worker-2/browsers/x/json?ct=",
				"/launch?env=", "/launch?%65nv=", "/launch?;env=", "/w/worker-1?ct=", "/launch?" + strings.Repeat("x", 2<<20) + "&env=",
			} {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					request, err := http.NewRequestWithContext(t.Context(), method, e.url+path+secret, nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, name := range []string{"X-API-Key", "X-Svc-Token", "Authorization", "Cookie", "Referer"} {
						request.Header.Set(name, "svc="+secret)
					}
					if answer, err := e.client(t, "").Do(request); err == nil {
						_, _ = io.Copy(io.Discard, answer.Body)
						answer.Body.Close()
					}
				}
			}
			e.assertNotLogged(t, secret)
		})
	}
}

// assertNotLogged searches the load balancer's files, of which one must not be empty.
func (e *edge) assertNotLogged(t *testing.T, secret string) {
	t.Helper()
	written := 0
	err := filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, ".log") {
			written += len(text)
		}
		for line := range strings.Lines(string(text)) {
			if i := strings.Index(line, secret); i >= 0 {
				t.Errorf("%s contains the secret: ...%s", filepath.Base(path), line[max(0, i-60):i+10])
				break
			}
		}
		return err
	})
	if err != nil || written == 0 && e.name != "haproxy" { // HAProxy logs no requests
		t.Errorf("the logs have %d bytes: %v", written, err)
	}
}

// TestEdges_AcceptLongestEnv sends the longest env that /launch accepts, in each
// encoding.
func TestEdges_AcceptLongestEnv(t *testing.T) {
	t.Parallel()
	const most = 65_536
	quotes, err := json.Marshal(strings.Repeat(`"`, most/2-1))
	if err != nil {
		t.Fatal(err)
	}
	envs := map[string]string{
		"base64url": strings.Repeat("x", most), "JSON of ASCII, escaped in full": string(quotes), "JSON, escaped in full": strings.Repeat("\U0001f642", most),
	}
	for i := range balancers {
		e := newEdge(t, i)
		t.Run(e.name, func(t *testing.T) {
			e.start(t, newFakeWorker(t, e.workerID(0)).address(), newFakeWorker(t, e.workerID(1)).address())
			for name, env := range envs {
				for _, version := range []int{1, 2} {
					client := e.client(t, "")
					if version == 1 {
						client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
					}
					answer, err := client.Get(e.url + "/launch?env=" + url.QueryEscape(env))
					if err != nil {
						t.Errorf("%s over HTTP/%d: %.200v", name, version, err)
						continue
					}
					text, err := io.ReadAll(answer.Body)
					answer.Body.Close()
					if answer.StatusCode != 200 || string(text) != env || answer.ProtoMajor != version {
						t.Errorf("%s over HTTP/%d: %s over %s, %d bytes (%v)", name, version, answer.Status, answer.Proto, len(text), err)
					}
				}
			}
		})
	}
}

// TestEdges_SkipDrainingWorker also checks that the sessions of the worker stay
// reachable, and that it gets launches again after draining.
func TestEdges_SkipDrainingWorker(t *testing.T) {
	t.Parallel()
	for i := range balancers {
		e := newEdge(t, i)
		t.Run(e.name, func(t *testing.T) {
			workers := [2]*fakeWorker{newFakeWorker(t, e.workerID(0)), newFakeWorker(t, e.workerID(1))}
			e.start(t, workers[0].address(), workers[1].address())
			launch := func() int {
				status, _ := e.send(t, http.MethodPost, "/sessions/profile", "{}", "X-API-Key", "key")
				return status
			}
			reached := func(which int) error {
				before := workers[which].launches.Load()
				for range 4 {
					if status := launch(); status != http.StatusCreated {
						return fmt.Errorf("a launch returned %d", status)
					}
				}
				if workers[which].launches.Load() == before {
					return errors.New("the worker got no launch")
				}
				return nil
			}
			for drains, worker := range workers {
				eventually(t, readyTimeout, "both workers accept launches", func() error { return errors.Join(reached(0), reached(1)) })
				worker.unready.Store(true)
				if err := reached(1 - drains); err != nil {
					t.Errorf("launches were not sent to the other worker immediately: %v", err)
				}
				if status, text := e.send(t, http.MethodGet, "/w/"+e.workerID(drains)+"/browsers/x/view", "", "X-Svc-Token", "token"); status != 200 || string(text) != e.workerID(drains) {
					t.Errorf("the browser of a draining worker returned %d %s", status, text)
				}
				worker.unready.Store(false)
			}
			eventually(t, readyTimeout, "both workers accept launches again", func() error { return errors.Join(reached(0), reached(1)) })
		})
	}
}
