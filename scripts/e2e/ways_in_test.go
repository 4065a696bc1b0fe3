package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// namespaceHost is the address of the worker in the clients' network namespaces.
const namespaceHost = "10.88.0.1"

// namespaceWorker is the WORKER_ID of a worker with clients in other namespaces.
const namespaceWorker = "w1"

// TestClients_GetInFromAnotherNamespace connects clients in every way that they
// support. Each runs in a network namespace of its own, in which nothing but the
// worker is reachable, like on another machine.
func TestClients_GetInFromAnotherNamespace(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	a, port := c.signUp(t), freePort(t)
	host := net.JoinHostPort(namespaceHost, port)
	env := testEnv{account: a, cloud: c, worker: startWorkerAt(t, port, c, a.key, completeBrowsers, "PUBLIC_URL=http://"+host, "WORKER_ID="+namespaceWorker)}
	env.worker.installPlaywright(t, playwrightVersions()...)
	request, page, client := env.newLaunchRequest(t, true), servePage(t), buildGoClient(t)
	session := env.worker.launch(t, request)
	if testenv.Full() {
		installClients(t)
	}
	outside := namespace{client, host, forwardSocket(t, env.worker.address)}
	if err := outside.run(t, map[string]any{"endpoint": "ws://127.0.0.1:" + fmt.Sprint(*session.DebugPort)}, new(visit), client, "rod"); err == nil {
		t.Fatal("the namespace reaches the loopback address of the host")
	}
	for _, c := range clientsIn(client) {
		for _, way := range c.tested() {
			t.Run(strings.ReplaceAll(c.name+" "+way, "/", "|"), func(t *testing.T) { c.visit(t, outside, way, a.key, page, session) })
		}
	}
	got, err := env.worker.api.GetBrowserSessionWithResponse(t.Context(), session.Id)
	requireAnswer(t, err, got, http.StatusOK)
	if got.JSON200.Data.Status != "running" {
		t.Errorf("a client that only disconnected ended the browser: %+v", got.JSON200.Data)
	}
	env.waitForSlots(t, 1, 20*time.Second) // the launches over other ways have ended
}

// visit visits the page in one way.
func (c clientIn) visit(t *testing.T, source namespace, way, key, page string, session workerapi.BrowserSession) {
	parsed, err := url.Parse(*session.WebSocketDebuggerUrl)
	if err != nil {
		t.Fatal(err)
	}
	token := parsed.Query().Get("ct")
	fill := strings.NewReplacer("{host}", source.address, "{id}", namespaceWorker, "{socket}", parsed.String(), "{token}", token, "{key}", key).Replace
	input := map[string]any{"endpoint": fill(wayEndpoint(way)), "url": page, "expression": "6 * 7", "close": false}
	if header, value, ok := strings.Cut(fill(headerOf(way)), ": "); ok {
		input["headers"] = map[string]string{header: value}
	}
	var result visit
	if err := source.run(t, input, &result, c.command...); err != nil {
		t.Fatal(strings.NewReplacer(token, "TOKEN", key, "KEY").Replace(err.Error()))
	}
	if way == mcpWay { // its tools return neither
		result.Value, result.Version = 42, fmt.Sprintf("%d.", session.BrowserVersion)
	}
	if !result.matches(session) {
		t.Errorf("saw %+v in Chromium %d", result, session.BrowserVersion)
	}
}

// namespace runs clients in network namespaces, each in a new one.
type namespace struct{ goClient, address, socket string }

func (n namespace) run(t *testing.T, input map[string]any, result any, command ...string) error {
	t.Helper()
	return n.runFor(t, clientTimeout, input, result, command...)
}

// runFor is run with another limit of time.
func (n namespace) runFor(t *testing.T, limit time.Duration, input map[string]any, result any, command ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.goClient, slices.Concat([]string{"namespace", n.address, n.socket}, command)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if id := os.Getuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return runClient(cmd, input, result)
}

// forwardSocket forwards connections of a Unix socket, which are possible from all
// namespaces, to the address, until the test ends. It returns the path of the socket.
func forwardSocket(t *testing.T, address string) string {
	t.Helper()
	return serveSocket(t, func(conn net.Conn) { splice(conn, address) })
}

// serveSocket serves the connections of a Unix socket until the test ends, and returns
// its path.
func serveSocket(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "svc-e2e-") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "worker")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			running.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
		_ = os.RemoveAll(dir)
	})
	return path
}

// splice copies between a connection and the address until one of them ends.
func splice(conn net.Conn, address string) {
	defer func() { _ = conn.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, conn)
		_ = server.Close()
	}()
	_, _ = io.Copy(conn, server)
}
