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

	"github.com/browser-svc/svc/shared/testenv"
)

// namespaceHost is the address of the worker in the clients' network namespaces.
const namespaceHost = "10.88.0.1"

// wayIn is how a client gets to a browser. In an endpoint, {host} stands for the
// worker's host and port, {socket} for webSocketDebuggerUrl, {token} for the control
// token and {key} for the organization key.
type wayIn struct {
	client   string
	way      string
	endpoint string
	bearer   bool // the control token is in the Authorization header
	full     bool // not in the quick run
}

const (
	socketWay   = "webSocketDebuggerUrl"
	rootWay     = "ws://worker/?ct="
	httpWay     = "http://worker/?ct="
	userinfoWay = "http://user:token@worker"
	bearerWay   = "http://worker, Bearer"
	launchWay   = "/launch?token="
	webDriver   = "http://user:key@worker/wd/hub"
)

func waysIn() (ways []wayIn) {
	endpoints := map[string]string{
		socketWay: "{socket}", rootWay: "ws://{host}/?ct={token}", httpWay: "http://{host}/?ct={token}", userinfoWay: "http://user:{token}@{host}",
		bearerWay: "http://{host}", launchWay: "ws://{host}/launch?token={key}&headless=true&timeout=120000",
		webDriver: "http://user:{key}@{host}/wd/hub",
	}
	add := func(client string, full bool, names ...string) {
		for _, name := range names {
			ways = append(ways, wayIn{client, name, endpoints[name], name == bearerWay, full})
		}
	}
	add("puppeteer", false, rootWay, launchWay)
	ways = append(ways, wayIn{"puppeteer", "ws://worker, Bearer", "ws://{host}", true, true})
	add("playwright", false, bearerWay, httpWay)
	add("playwright", true, userinfoWay, rootWay, launchWay)
	add("chrome-remote-interface", false, httpWay)
	add("chrome-remote-interface", true, rootWay, launchWay)
	add("chromedp", false, httpWay)
	add("chromedp", true, rootWay, launchWay)
	add("rod", false, userinfoWay)
	add("rod", true, httpWay, rootWay, launchWay)
	add("stagehand", true, socketWay, rootWay, launchWay)
	ways = append(ways, wayIn{"stagehand", "ws://worker, Bearer", "ws://{host}", true, true})
	add("python playwright", true, bearerWay, httpWay, launchWay)
	add("python pydoll", true, socketWay, rootWay)
	add("python crawl4ai", true, httpWay, socketWay, launchWay)
	ways = append(ways, wayIn{"python drissionpage", "worker/?ct=", "{host}/?ct={token}", false, true})
	add("python nodriver", true, bearerWay)
	add("webdriver", false, webDriver)
	add("webdriverio", true, webDriver)
	add("python selenium", true, webDriver)
	return ways
}

// TestClients_GetInFromAnotherNamespace connects clients in every way that they
// support. Each runs in a network namespace of its own, in which nothing but the
// worker is reachable, like on another machine.
func TestClients_GetInFromAnotherNamespace(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	a, port := c.signUp(t), freePort(t)
	host := net.JoinHostPort(namespaceHost, port)
	env := testEnv{account: a, cloud: c, worker: startWorkerAt(t, port, c, a.key, "PUBLIC_URL=http://"+host)}
	session, page, client := env.worker.launch(t, env.newLaunchRequest(t, true)), servePage(t), buildGoClient(t)
	if testenv.Full() {
		if out, err := exec.CommandContext(t.Context(), "clients/full/install").CombinedOutput(); err != nil {
			t.Fatalf("clients/full/install: %v\n%s", err, out)
		}
	}
	outside := namespace{client, host, forwardSocket(t, env.worker.address)}
	parsed, err := url.Parse(*session.WebSocketDebuggerUrl)
	if err != nil {
		t.Fatal(err)
	}
	token := parsed.Query().Get("ct")
	fill := strings.NewReplacer("{host}", host, "{socket}", *session.WebSocketDebuggerUrl, "{token}", token, "{key}", a.key).Replace
	if err := outside.run(t, map[string]any{"endpoint": "ws://127.0.0.1:" + fmt.Sprint(*session.DebugPort)}, new(visit), client, "rod"); err == nil {
		t.Fatal("the namespace reaches the loopback address of the host")
	}
	for _, way := range waysIn() {
		if way.full && !testenv.Full() {
			continue
		}
		t.Run(strings.ReplaceAll(way.client+" "+way.way, "/", "|"), func(t *testing.T) {
			input := map[string]any{"endpoint": fill(way.endpoint), "url": page, "expression": "6 * 7", "close": false}
			if way.bearer {
				input["headers"] = map[string]string{"Authorization": "Bearer " + token}
			}
			var seen visit
			if err := outside.run(t, input, &seen, way.command(client)...); err != nil {
				t.Fatal(strings.NewReplacer(token, "TOKEN", a.key, "KEY").Replace(err.Error()))
			}
			if !seen.matches(session) {
				t.Errorf("saw %+v in Chromium %d", seen, session.BrowserVersion)
			}
		})
	}
	got, err := env.worker.api.GetBrowserSessionWithResponse(t.Context(), session.Id)
	requireAnswer(t, err, got, http.StatusOK)
	if got.JSON200.Data.Status != "running" {
		t.Errorf("a client that only disconnected ended the browser: %+v", got.JSON200.Data)
	}
	env.waitForSlots(t, 1, 20*time.Second) // the launches over /launch have ended
}

// command returns the command of a client that reads its input from standard input.
func (w wayIn) command(goClient string) []string {
	name, python := strings.CutPrefix(w.client, "python ")
	switch {
	case python:
		return []string{filepath.Join(root, "bin", "clients", "bin", "python"), "clients/full/visit.py", name}
	case name == "chromedp", name == "rod":
		return []string{goClient, name}
	case name == "stagehand", name == "webdriverio":
		return []string{"node", "clients/full/" + name + ".mjs"}
	}
	return []string{"node", "clients/" + name + ".mjs"}
}

// namespace runs clients in network namespaces, each in a new one.
type namespace struct{ goClient, address, socket string }

func (n namespace) run(t *testing.T, input map[string]any, seen any, command ...string) error {
	t.Helper()
	return n.runFor(t, clientTimeout, input, seen, command...)
}

// runFor is run with another limit of time.
func (n namespace) runFor(t *testing.T, limit time.Duration, input map[string]any, seen any, command ...string) error {
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
	return runClient(cmd, input, seen)
}

// forwardSocket forwards connections of a Unix socket, which are possible from all
// namespaces, to the address, until the test ends. It returns the path of the socket.
func forwardSocket(t *testing.T, address string) string {
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
			from, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			running.Go(func() { splice(from, address) })
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
func splice(from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}
