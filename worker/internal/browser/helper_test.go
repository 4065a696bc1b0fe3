package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nhooyr.io/websocket"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// publicTempDir is a temporary directory that other users can pass through.
func publicTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "browser-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func systemBuild(t *testing.T) browser.Build {
	t.Helper()
	builds, err := browser.NewFinder(browser.FindOptions{}).Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(builds, func(b browser.Build) bool { return b.Headful })
	if i < 0 {
		t.Fatal("no Chromium is installed; these tests need one")
	}
	return builds[i]
}

// rig is a launcher with what its tests look at.
type rig struct {
	*browser.Launcher
	dir   string
	build browser.Build
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := filepath.Join(publicTempDir(t), "launches")
	l, err := browser.NewLauncher(browser.Options{Dir: dir, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &rig{Launcher: l, dir: dir, build: systemBuild(t)}
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (r *rig) spec(id string) browser.Spec {
	return browser.Spec{LaunchID: id, Build: r.build, Headless: true}
}

func (r *rig) launch(t *testing.T, spec browser.Spec) *browser.Browser {
	t.Helper()
	b, err := r.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Kill(context.Background()) })
	return b
}

// assertNothingLeft fails when anything of a launch is still there.
func (r *rig) assertNothingLeft(t *testing.T) {
	t.Helper()
	if left := markedProcesses(r.dir); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("directory left: %s", e.Name())
		}
	}
}

// tree lists a browser's live processes: those of its group, and of its user
// when that is not ours.
func tree(pid int) []int {
	_, uid, _, ok := stat(pid)
	if !ok {
		return nil
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	_, root, _ := strings.Cut(string(command), "--svc-launch=")
	root, _, _ = strings.Cut(strings.ReplaceAll(root, " ", "\x00"), "\x00")
	return processesWhere(func(p, pgid, puid int) bool {
		return pgid == pid || (uid != os.Geteuid() && puid == uid) ||
			(root != "" && strings.Contains(environ(p)+"\x00", "SVC_LAUNCH="+root+"\x00"))
	})
}

func environ(pid int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return string(raw)
}

// treeEnviron is the environment that a browser was given, as those of its
// processes keep it that do not overwrite theirs.
func treeEnviron(t *testing.T, pid int) string {
	t.Helper()
	for _, p := range tree(pid) {
		if env := environ(p); strings.Contains(env, "XDG_RUNTIME_DIR=") {
			return env
		}
	}
	t.Fatal("no process has kept its environment")
	return ""
}

func markedProcesses(dir string) []int {
	return processesWhere(func(pid, _, _ int) bool {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return bytes.Contains(command, []byte("="+dir+"/")) || strings.Contains(environ(pid), "SVC_LAUNCH="+dir+"/")
	})
}

func processesWhere(match func(pid, pgid, uid int) bool) []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if pgid, uid, alive, ok := stat(pid); ok && alive && match(pid, pgid, uid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func stat(pid int) (pgid, uid int, alive, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false, false
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	pgid, _ = strconv.Atoi(fields[2])
	uid, _ = strconv.Atoi(strings.Fields(statusField(pid, "Uid") + " -1")[0])
	return pgid, uid, fields[0] != "Z", true
}

func statusField(pid int, name string) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.SplitSeq(string(raw), "\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// eventually polls until ok, and fails after the limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// client is what a customer runs: a second DevTools client, over the socket.
type client struct{ *cdp.Conn }

// socketPipe makes a WebSocket look like the pair of pipes.
type socketPipe struct {
	ctx    context.Context
	ws     *websocket.Conn
	unread []byte
}

func (p *socketPipe) Read(buf []byte) (int, error) {
	if len(p.unread) == 0 {
		_, msg, err := p.ws.Read(p.ctx)
		if err != nil {
			return 0, err
		}
		p.unread = append(msg, 0)
	}
	n := copy(buf, p.unread)
	p.unread = p.unread[n:]
	return n, nil
}

func (p *socketPipe) Write(frame []byte) (int, error) {
	return len(frame), p.ws.Write(p.ctx, websocket.MessageText, bytes.TrimSuffix(frame, []byte{0}))
}

func (p *socketPipe) Close() error { return p.ws.CloseNow() }

func dial(t *testing.T, b *browser.Browser) client {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), fmt.Sprintf("ws://127.0.0.1:%d%s", b.DebugPort, b.WebSocketPath), nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(64 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	pipe := &socketPipe{ctx: ctx, ws: ws}
	c := client{cdp.New(pipe, pipe)}
	t.Cleanup(func() {
		cancel()
		c.Close()
	})
	return c
}

func (c client) call(t *testing.T, session, method string, params any) json.RawMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var out json.RawMessage
	if err := c.Call(ctx, session, method, params, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// open makes a page and attaches to it.
func (c client) open(t *testing.T, url string) (session string) {
	t.Helper()
	var target struct{ TargetID string }
	unmarshal(t, c.call(t, "", "Target.createTarget", map[string]any{"url": url}), &target)
	return c.attach(t, target.TargetID)
}

func (c client) attach(t *testing.T, targetID string) (session string) {
	t.Helper()
	var attached struct{ SessionID string }
	unmarshal(t, c.call(t, "", "Target.attachToTarget", map[string]any{"targetId": targetID, "flatten": true}), &attached)
	return attached.SessionID
}

// eval runs an expression, promises awaited, and decodes what it yields.
func (c client) eval(t *testing.T, session, expression string, out any) {
	t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	unmarshal(t, c.call(t, session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}), &answer)
	if answer.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	if out != nil {
		unmarshal(t, answer.Result.Value, out)
	}
}

type targetInfo struct {
	TargetID, Type, URL, OpenerID string
}

func (c client) targets(t *testing.T) []targetInfo {
	t.Helper()
	var list struct{ TargetInfos []targetInfo }
	unmarshal(t, c.call(t, "", "Target.getTargets", nil), &list)
	return list.TargetInfos
}

func unmarshal(t *testing.T, raw json.RawMessage, out any) {
	t.Helper()
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}
