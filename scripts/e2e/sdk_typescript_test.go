package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// completeLines is the most lines of code that the complete example of the README may have.
const completeLines = 12

// TestSDK_TypeScriptFromAnotherNamespace installs the packed SDK in an empty project and runs
// the examples of its README and a program that cuts its sockets, like on another machine.
func TestSDK_TypeScriptFromAnotherNamespace(t *testing.T) {
	t.Parallel()
	c := startCloud(t, "DATABASE_URL="+dbtest.NewDSN(t))
	a, port := c.signUp(t), freePort(t)
	host := net.JoinHostPort(namespaceHost, port)
	w := startWorkerAt(t, port, c, a.key, completeBrowsers)
	line := newCuttableLine(t, w.address)
	site := serveShop(t, line.cut)
	p := newTypeScriptProject(t)
	p.environment = map[string]string{"SVC_WORKER": "http://" + host, "SVC_API_KEY": w.key, "SVC_TOKEN": a.token}
	p.names = strings.NewReplacer("https://worker.example", "http://"+host, "https://shop.example", site)
	p.outside = namespace{buildGoClient(t), host, forwardSocket(t, line.Addr().String())}
	p.writePrograms(t)
	cloud := strings.NewReplacer("https://worker.example", w.url, "https://cloud.example", c.url, ": 156", fmt.Sprintf(": %d", w.newestVersion(t)))
	p.write(t, "cloud.ts", cloud.Replace(p.example(t, "cloud"))) // the cloud is not in the namespace
	p.compile(t)
	stop := make(chan struct{})
	var person sync.WaitGroup
	person.Go(func() { w.solveCaptchas(t, stop) })
	defer person.Wait()
	defer close(stop)
	for name, check := range map[string]func(*testing.T, sdkProject, []string){
		"complete": checkComplete, "sessions": checkSessions, "puppeteer": checkPuppeteer, "proof": checkProof, "retries": checkRetries,
	} {
		t.Run(name, func(t *testing.T) { check(t, p, p.run(t, name)) })
	}
	t.Run("playwright-test", func(t *testing.T) { p.runPlaywrightTest(t) })
	t.Run("cloud", func(t *testing.T) {
		var printed []string
		runScript(t, "sdk/example", map[string]any{"project": p.dir, "name": "cloud", "environment": p.environment}, &printed)
		if !slices.Equal(printed, []string{"checkout 1", "online"}) {
			t.Errorf("printed %q", printed)
		}
	})
}

// TestSDK_TypeScriptLosesNoMessageAcrossCuts takes long: the SDK notices after 15 seconds that a
// connection hangs.
func TestSDK_TypeScriptLosesNoMessageAcrossCuts(t *testing.T) {
	t.Parallel()
	if testenv.Full() {
		p := newTypeScriptProject(t)
		requireNoMessageLost(t, filepath.Join(p.dir, "node_modules/@browser-svc/sdk/dist/esm/resume.js"))
	}
}

// testTypeScriptSDK launches browsers through the edge, whose sessions are then those of one of
// its workers each, and lists them at the addresses of both workers.
func (b *edgeTest) testTypeScriptSDK(t *testing.T) {
	p := newTypeScriptProject(t)
	p.write(t, "edge.js", `import { Svc } from "@browser-svc/sdk";
const [edge, key, profile] = [process.env.EDGE, process.env.SVC_API_KEY, process.env.PROFILE];
const svc = new Svc({ worker: edge, key });
const sessions = [await svc.launch({ profile, name: "sdk" }), await svc.launch({ profile, name: "sdk" })];
for (const session of sessions) {
  const browser = await session.puppeteer();
  console.log(await (await browser.newPage()).evaluate("6 * 7"), (await session.refresh()).status);
}
const workers = new Svc({ worker: [edge + "/w/worker-1", edge + "/w/worker-2"], key });
for await (const session of workers.sessions.list({ name: "sdk", status: "running" })) await session.end();
for (const session of sessions) console.log((await session.refresh()).status);
`)
	input := map[string]any{"project": p.dir, "name": "edge", "environment": map[string]string{
		"EDGE": b.url, "SVC_API_KEY": b.worker.key, "PROFILE": b.request.ProfileId.String(),
	}}
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	var printed []string
	if err := runClient(b.trustEdge(exec.CommandContext(ctx, "node", "clients/sdk/example.mjs")), input, &printed); err != nil {
		t.Fatal(err)
	}
	if want := []string{"42 running", "42 running", "killed", "killed"}; !slices.Equal(printed, want) {
		t.Errorf("printed %q, want %q", printed, want)
	}
}

func checkComplete(t *testing.T, p sdkProject, printed []string) {
	if len(printed) != 1 || !strings.Contains(printed[0], "/view?") {
		t.Errorf("printed %q, want the live view", printed)
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "report.txt")); string(text) != "a report" {
		t.Errorf("the download is %q: %v", text, err)
	}
	if video, err := os.ReadFile(filepath.Join(p.dir, "session.webm")); len(video) < 1000 || string(video[:4]) != "\x1a\x45\xdf\xa3" {
		t.Errorf("the recording has %d bytes: %v", len(video), err)
	}
	if lines := codeLines(p.example(t, "complete")); lines > completeLines {
		t.Errorf("the complete example has %d lines of code, more than %d", lines, completeLines)
	} else {
		t.Logf("the complete example has %d lines of code", lines)
	}
}

func checkSessions(t *testing.T, _ sdkProject, printed []string) {
	if len(printed) != 4 || printed[0] != "nightly" || printed[1] != "nightly" || !strings.Contains(printed[2], "/view?t=") || printed[3] != "0" {
		t.Errorf("printed %q", printed)
	}
}

func checkPuppeteer(t *testing.T, p sdkProject, printed []string) {
	if !slices.Equal(printed, []string{"welcome"}) {
		t.Errorf("printed %q", printed)
	}
	for _, name := range []string{"downloads/report.txt", "again.txt"} {
		eventually(t, 5*time.Second, name, func() error {
			text, err := os.ReadFile(filepath.Join(p.dir, name))
			if err == nil && string(text) != "a report" {
				err = fmt.Errorf("it contains %q", text)
			}
			return err
		})
	}
}

func checkProof(t *testing.T, _ sdkProject, printed []string) {
	var result struct{ Resumed int }
	if len(printed) != 1 || json.Unmarshal([]byte(printed[0]), &result) != nil || result.Resumed < 5 {
		t.Errorf("printed %q, want a connection that continued after each cut", printed)
	}
}

func checkRetries(t *testing.T, _ sdkProject, printed []string) {
	if !slices.Equal(printed, []string{"passed"}) {
		t.Errorf("printed %q", printed)
	}
}

// writePrograms writes the examples of the README and the proof with the addresses of the test.
func (p sdkProject) writePrograms(t *testing.T) {
	t.Helper()
	for _, name := range []string{"complete", "sessions", "puppeteer"} {
		p.write(t, name+".ts", p.names.Replace(p.example(t, name)))
	}
	p.write(t, "shop.spec.ts", p.names.Replace(p.example(t, "playwright-test")))
	p.write(t, "failing.spec.ts", p.names.Replace(`import { expect, test } from "@browser-svc/sdk/playwright";
test("fails", async ({ page }) => {
  await page.goto("https://shop.example/");
  await page.waitForTimeout(500);
  expect(await page.title()).toBe("Another shop");
});
`))
	for _, name := range []string{"proof", "retries"} {
		program, err := os.ReadFile("clients/sdk/" + name + ".ts")
		if err != nil {
			t.Fatal(err)
		}
		p.write(t, name+".ts", p.names.Replace(string(program)))
	}
}

// runPlaywrightTest runs the tests of the project: one passes, one fails and has a recording.
func (p sdkProject) runPlaywrightTest(t *testing.T) {
	var report struct {
		Suites []struct {
			File  string
			Specs []struct {
				OK    bool
				Tests []struct {
					Annotations []struct{ Type, Description string }
					Results     []struct {
						Errors      []struct{ Message string }
						Attachments []struct{ Name, Path string }
					}
				}
			}
		}
	}
	cli := filepath.Join(p.modules, "@playwright", "test", "cli.js")
	script := `cd "$1" && export SVC_WORKER="$2" SVC_API_KEY="$3" && node "$4" test --workers=1 --reporter=json "spec\.ts$" || true`
	if err := p.outside.run(t, nil, &report, "sh", "-c", script, "sh", p.dir, p.environment["SVC_WORKER"], p.environment["SVC_API_KEY"], cli); err != nil {
		t.Fatal(err)
	}
	if len(report.Suites) != 2 {
		t.Fatalf("the report is %+v", report)
	}
	for _, suite := range report.Suites {
		isFailing := suite.File == "failing.spec.ts"
		spec, result := suite.Specs[0], suite.Specs[0].Tests[0].Results[0]
		hasRecording := len(result.Attachments) > 0 && result.Attachments[0].Name == "recording"
		if spec.OK == isFailing || hasRecording != isFailing || len(spec.Tests[0].Annotations) != 1 || !strings.HasSuffix(spec.Tests[0].Annotations[0].Description, "/view") {
			t.Errorf("%s: %+v", suite.File, spec)
		} else if hasRecording {
			if video, err := os.ReadFile(result.Attachments[0].Path); len(video) < 1000 {
				t.Errorf("the recording has %d bytes: %v", len(video), err)
			}
		}
	}
}

// solveCaptchas completes the handovers of a worker that ask for a captcha.
func (w *worker) solveCaptchas(t *testing.T, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		list, err := w.api.ListBrowserSessionsWithResponse(t.Context(), &workerapi.ListBrowserSessionsParams{})
		if err != nil || list.JSON200 == nil {
			t.Errorf("list sessions: %v", err)
			return
		}
		for _, s := range list.JSON200.Data.Items {
			if s.Handover == nil || s.Handover.Reason != "Solve the captcha." {
				continue
			}
			done, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/browsers/"+s.LaunchId.String()+"/handover/done", strings.NewReader("{}"))
			if err != nil {
				t.Error(err)
				return
			}
			done.Header.Set("Content-Type", "application/json")
			answer, err := contractClient(t, workerDocument, "X-API-Key", w.key).Do(done)
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Errorf("complete the handover: %+v, %v", answer, err)
				return
			}
			_ = answer.Body.Close()
		}
	}
}

// cuttableLine forwards connections to a worker until it cuts them.
type cuttableLine struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func newCuttableLine(t *testing.T, worker string) *cuttableLine {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	line := &cuttableLine{Listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			line.mu.Lock()
			line.conns = append(line.conns, conn)
			line.mu.Unlock()
			running.Go(func() { splice(conn, worker) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		line.cut()
		running.Wait()
	})
	return line
}

// cut closes all connections.
func (l *cuttableLine) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// serveShop serves a page with a download, a file input and a button that cuts the
// connections of the client while it is pressed.
func serveShop(t *testing.T, cut func()) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			_, _ = fmt.Fprint(w, `<!doctype html><title>Shop</title><a id=report href=/report>report</a><input type=file id=file><button id=cut>cut</button>
<script>
let clicks = 0, answers = 0;
console.log('welcome');
const button = document.querySelector('#cut');
button.onmousedown = () => {
  const request = new XMLHttpRequest();
  request.open('GET', '/cut', false);
  request.send();
  answers++;
};
button.onclick = () => console.log('click ' + ++clicks);
</script>`)
		case "/cut":
			cut()
		case "/report":
			w.Header().Set("Content-Disposition", "attachment; filename=report.txt")
			w.Header().Set("Content-Length", strconv.Itoa(len("a report")))
			_, _ = fmt.Fprint(w, "a report")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
