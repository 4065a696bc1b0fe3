package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// idleDuration is longer than the default idle timeouts of the load balancers.
const idleDuration = 65 * time.Second

// edgeTest is an edge with one browser on each of its workers.
type edgeTest struct {
	*edge
	testEnv
	goClient string // the program
	request  workerapi.LaunchProfileRequest
	sessions [2]workerapi.BrowserSession // of worker-1 and worker-2
}

func newEdgeTest(t *testing.T, index int, c *cloud, dsn, goClient string) *edgeTest {
	t.Helper()
	account := c.signUp(t)
	account.setLimit(t, dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), 10)
	b := &edgeTest{edge: startEdge(t, index, c, account.key), goClient: goClient}
	b.testEnv = testEnv{account: account, cloud: c, worker: b.workers[0]}
	id := b.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: b.worker.newestVersion(t), IgnoreHTTPSErrors: new(true)})
	b.request = workerapi.LaunchProfileRequest{ProfileId: &id, Browser: &workerapi.BrowserSettings{Headless: new(false)}}
	for i, w := range b.workers {
		b.sessions[i] = w.launch(t, b.request)
	}
	return b
}

// TestEdges_ServeAllClients runs the tests behind HAProxy, nginx and Caddy, and then
// the client matrix. In the meantime, one connection through each edge is idle for
// longer than the default timeouts of the load balancers.
func TestEdges_ServeAllClients(t *testing.T) {
	t.Parallel()
	dsn := dbtest.NewDSN(t)
	c, goClient := startCloud(t, "DATABASE_URL="+dsn), buildGoClient(t)
	var edges []*edgeTest
	var idle sync.WaitGroup
	defer idle.Wait()
	for i := range balancers {
		b := newEdgeTest(t, i, c, dsn, goClient)
		edges = append(edges, b)
		idle.Go(func() { b.assertIdleConnectionSurvives(t) })
	}
	for _, b := range edges {
		t.Run(b.name, b.runAll)
	}
	t.Run("matrix", func(t *testing.T) { runMatrix(t, edges[0]) })
}

// assertIdleConnectionSurvives fails the test unless a connection still works after
// a long idle time.
func (b *edgeTest) assertIdleConnectionSurvives(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), idleDuration+clientTimeout)
	defer cancel()
	var result visit
	input := map[string]any{"endpoint": *b.sessions[0].WebSocketDebuggerUrl, "seconds": idleDuration.Seconds()}
	if err := runClient(b.trustEdge(exec.CommandContext(ctx, "node", "clients/idle.mjs")), input, &result); err != nil {
		t.Errorf("through %s, after %v without traffic: %v", b.name, idleDuration, err)
	}
}

// trustEdge makes a client trust the edge's certificate.
func (b *edgeTest) trustEdge(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+b.rootCA, "SSL_CERT_FILE="+b.rootCA)
	return cmd
}

func (b *edgeTest) runAll(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"URLs of a launch point to the edge", b.testURLs},
		{"pages work in a real browser", b.testPages},
		{"URLs of /json point to the edge", b.testDiscovery},
		{"launch over a socket", b.testLaunchSocket},
		{"launch on any worker", b.testLaunch},
		{"launch with the TypeScript SDK", b.testTypeScriptSDK},
		{"other workers refuse the token", b.testTokens},
		{"client addresses from trusted proxies only", b.testAddresses},
	} {
		t.Run(c.name, c.test)
	}
}

func (b *edgeTest) testURLs(t *testing.T) {
	for i, s := range b.sessions {
		base := "//" + strings.TrimPrefix(b.url, "https://") + "/w/" + b.workerID(i) + "/browsers/" + s.LaunchId.String() + "/"
		for url, want := range map[string]string{
			*s.WebSocketDebuggerUrl: "wss:" + base + "devtools/browser/",
			*s.DevtoolsFrontendUrl:  "https:" + base + "devtools?ct=",
			*s.ViewUrl:              "https:" + base + "view?ct=",
		} {
			if !strings.HasPrefix(url, want) {
				t.Errorf("%s does not begin with %s", withoutQuery(url), want)
			}
		}
	}
}

// testPages opens the pages of the first browser in the second one. The quick run opens
// the DevTools front end, which takes seconds, behind one load balancer only.
func (b *edgeTest) testPages(t *testing.T) {
	id := b.sessions[0].LaunchId.String()
	for _, c := range []struct {
		name    string
		url     func(workerapi.BrowserSession) string
		sockets int // sockets that must receive messages
		files   int // minimum number of files
	}{
		{"devtools", func(s workerapi.BrowserSession) string { return *s.DevtoolsFrontendUrl }, 1, 50},
		{"view", func(s workerapi.BrowserSession) string { return *s.ViewUrl }, 1, 3},
	} {
		if c.name == "devtools" && b.balancer > 0 && !testenv.Full() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			var now workerapi.BrowserSessionResponse // a page token is valid once
			b.callWorker(t, http.MethodGet, "/w/worker-1/sessions/"+b.sessions[0].Id.String(), "", http.StatusOK, &now)
			if *now.Data.WebSocketDebuggerUrl != *b.sessions[0].WebSocketDebuggerUrl {
				t.Error("the URL of the socket has changed")
			}
			var result struct {
				Address, Title string
				Files          int
				Failed         []string
				Sockets        []struct {
					Path             string
					Status, Received int
				}
				Cookies []struct {
					Name, Path, SameSite string
					Secure, HTTPOnly     bool
				}
			}
			input := map[string]any{"endpoint": *b.sessions[1].WebSocketDebuggerUrl, "url": c.url(now.Data), "sockets": c.sockets}
			ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
			defer cancel()
			if err := runClient(b.trustEdge(exec.CommandContext(ctx, "node", "clients/page.mjs")), input, &result); err != nil {
				t.Fatal(err)
			}
			t.Logf("%q: %d files, sockets %v", result.Title, result.Files, result.Sockets)
			if len(result.Failed) > 0 || result.Files < c.files || len(result.Sockets) < c.sockets {
				t.Errorf("failed: %v; %d files, sockets %v", result.Failed, result.Files, result.Sockets)
			}
			for _, socket := range result.Sockets {
				// HTTP/2 has no 101: a WebSocket is a request with the response 200.
				if socket.Status != 101 && socket.Status != 200 || socket.Received == 0 {
					t.Errorf("socket: %+v", socket)
				}
			}
			if strings.Contains(result.Address, "ct=") || !strings.HasPrefix(result.Address, b.url+"/w/worker-1/browsers/"+id+"/") {
				t.Errorf("the page is at %s", withoutQuery(result.Address))
			}
			if len(result.Cookies) != 1 {
				t.Fatalf("cookies %+v, want one", result.Cookies)
			}
			cookie := result.Cookies[0]
			if cookie.Path != "/w/worker-1/browsers/"+id+"/" || !cookie.Secure || !cookie.HTTPOnly || cookie.SameSite != "Strict" {
				t.Errorf("cookie: %+v", cookie)
			}
		})
	}
}

// testLaunch launches at the edge's URL, without the path of a worker.
func (b *edgeTest) testLaunch(t *testing.T) {
	body, err := json.Marshal(workerapi.LaunchProfileRequest{ProfileId: b.request.ProfileId})
	if err != nil {
		t.Fatal(err)
	}
	var launched workerapi.BrowserSessionResponse
	b.callWorker(t, http.MethodPost, "/sessions/profile", string(body), http.StatusCreated, &launched)
	session := launched.Data
	assertDrivableThroughEdge(t, b, session)
	address, err := url.Parse(*session.ViewUrl)
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(address.Path, "/w/"), "/")
	if !slices.Contains([]string{"worker-1", "worker-2"}, id) {
		t.Fatalf("launched by worker %q", id)
	}
	b.callWorker(t, http.MethodDelete, "/w/"+id+"/sessions/"+session.Id.String(), "", http.StatusOK, nil)
	b.waitForSlots(t, 2, 10*time.Second)
}

// callWorker sends a request to the edge with the worker key.
func (b *edgeTest) callWorker(t *testing.T, method, path, body string, status int, into any) {
	t.Helper()
	got, text := b.send(t, method, path, body, "X-API-Key", b.worker.key)
	if got != status {
		t.Fatalf("%s %s: %d %s", method, path, got, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
}

func assertDrivableThroughEdge(t *testing.T, b *edgeTest, s workerapi.BrowserSession) {
	t.Helper()
	var result visit
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	input := map[string]any{"endpoint": *s.WebSocketDebuggerUrl, "url": servePage(t), "expression": "6 * 7"}
	if err := runClient(b.trustEdge(exec.CommandContext(ctx, "node", "clients/puppeteer.mjs")), input, &result); err != nil || !result.matches(s) {
		t.Errorf("saw %+v, %v", result, err)
	}
}

// testTokens sends the tokens of one worker's launch to the other worker.
func (b *edgeTest) testTokens(t *testing.T) {
	client := b.client(t, "")
	first, second := b.sessions[0], b.sessions[1]
	other := strings.NewReplacer("/w/worker-1/", "/w/worker-2/", "wss://", "https://")
	both := strings.NewReplacer("/w/worker-1/", "/w/worker-2/", first.LaunchId.String(), second.LaunchId.String(), "wss://", "https://")
	for _, address := range []string{*first.WebSocketDebuggerUrl, *first.DevtoolsFrontendUrl, *first.ViewUrl} {
		for name, wrong := range map[string]string{"its path": other.Replace(address), "its browser": both.Replace(address)} {
			answer, err := client.Get(wrong)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusNotFound || string(text) != "unknown browser" || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") {
				t.Errorf("the other worker, with %s, returned for %s: %s %q", name, withoutQuery(wrong), answer.Status, text)
			}
		}
	}
}

// testAddresses sends requests from another address, with a forged header.
func (b *edgeTest) testAddresses(t *testing.T) {
	const own, forged = "127.0.0.9", "203.0.113.7"
	client := b.client(t, own)
	for i, want := range []string{own, "127.0.0.1"} {
		id := "req-" + strings.ToLower(rand.Text())
		for _, base := range []string{b.url + "/w/" + b.workerID(i), strings.Replace(b.workers[i].url, "localhost", "127.0.0.1", 1)} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/browsers/"+uuid.NewString()+"/"+id, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Forwarded-For", forged)
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		}
		var lines []string
		eventually(t, 5*time.Second, "the worker logs both requests", func() error {
			lines = nil
			for line := range strings.Lines(b.workers[i].logText()) {
				if strings.Contains(line, id) && strings.Contains(line, "remoteIp=") {
					lines = append(lines, line)
				}
			}
			if len(lines) != 2 {
				return fmt.Errorf("the log lines are %q", lines)
			}
			return nil
		})
		if !strings.Contains(lines[0], "remoteIp="+want+" ") && !strings.HasSuffix(lines[0], "remoteIp="+want+"\n") {
			t.Errorf("through the edge, worker %d did not log the client address %s: %s", i+1, want, lines[0])
		}
		if !strings.Contains(lines[1], "remoteIp="+own) { // the client is not the proxy, so its header is ignored
			t.Errorf("directly, worker %d did not log the client address %s: %s", i+1, own, lines[1])
		}
	}
}
