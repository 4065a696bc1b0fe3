package browser_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// hostileLibrary takes the place of playwright-core. It tries to leave its sandbox, and tells
// on the port of the server what worked.
const hostileLibrary = `
const fs = require('fs'), net = require('net'), http = require('http'), { execFileSync } = require('child_process');
const attempt = f => { try { return String(f()); } catch (e) { return e.code || 'failed'; } };
const connect = (port, host) => new Promise(done => {
  const socket = net.connect(port, host, () => { done('connected'); socket.destroy(); });
  socket.on('error', e => done(e.code));
});
exports.chromium = { launchServer: async ({ port, downloadsPath }) => {
  const target = JSON.parse(fs.readFileSync(__dirname + '/target.json'));
  const found = {
    host: await connect(target.port, '127.0.0.1'),
    outside: await connect(80, '192.0.2.1'),
    secret: attempt(() => fs.readFileSync(target.secret)),
    shadow: attempt(() => fs.readFileSync('/etc/shadow')),
    library: attempt(() => fs.writeFileSync(__dirname + '/changed', 'x')),
    downloads: attempt(() => fs.writeFileSync(downloadsPath + '/changed', 'x')),
    otherLaunch: attempt(() => fs.readdirSync(target.launches)),
    processes: fs.readdirSync('/proc').filter(name => /^\d+$/.test(name) && name !== String(process.pid)).length,
    worker: attempt(() => process.kill(target.pid, 0)),
    user: process.getuid() === target.uid,
    root: attempt(() => process.setuid(0)),
    mount: attempt(() => execFileSync('/bin/mount', ['-t', 'tmpfs', 'none', '/tmp'], { stdio: 'ignore' })),
  };
  http.createServer((_, answer) => answer.end(JSON.stringify(found))).listen(port, '127.0.0.1');
  return { on() {} };
} };
`

// TestStartPlaywright_HostileServerReachesNothing is about the process of Playwright's server,
// after a client has taken it over.
func TestStartPlaywright_HostileServerReachesNothing(t *testing.T) {
	r := newIsolatedFixture(t)
	node, err := exec.LookPath("node")
	if err == nil {
		node, err = filepath.EvalSymlinks(node)
	}
	if err != nil {
		t.Fatal("this test needs Node.js: ", err)
	}
	host, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	r.launch(t, r.spec("other"))
	b := r.launch(t, r.spec("driven"))
	library := testenv.PublicTempDir(t)
	target, err := json.Marshal(map[string]any{
		"port": host.Addr().(*net.TCPAddr).Port, "secret": library + "-secret", "launches": r.dir, "pid": os.Getpid(), "uid": b.UID(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		library + "/index.js": hostileLibrary, library + "/target.json": string(target), library + "-secret": "of the host",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Remove(library + "-secret")
	d, err := b.StartPlaywright(t.Context(), browser.PlaywrightPrograms{Node: node, Library: library})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.Dial(ctx) }}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://" + browser.DriverAddress + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"host": "ECONNREFUSED", "outside": "ENETUNREACH", "secret": "ENOENT", "shadow": "ENOENT", "library": "EROFS", "downloads": "EROFS",
		"otherLaunch": "ENOENT", "processes": 0.0, "worker": "ESRCH", "user": true, "root": "EPERM", "mount": "failed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-d.Done()
	if left := processesWhere(func(pid, _, _ int) bool { return strings.Contains(environ(pid), "SVC_LAUNCH="+r.dir+"/driven") }); len(left) > 0 {
		t.Error("left processes " + strconv.Itoa(len(left)))
	}
}
