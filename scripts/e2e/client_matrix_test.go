package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// matrixCase is one combination of the matrix: a client connects to a browser,
// opens a page, evaluates a script, takes a screenshot, disconnects, reconnects to
// the same URL and ends the browser.
type matrixCase struct {
	client   string
	headless bool
	edge     *edgeTest // nil: no edge
}

func (c matrixCase) name() string {
	route, mode := "direct", "headful"
	if c.edge != nil {
		route = c.edge.name
	}
	if c.headless {
		mode = "headless"
	}
	return fmt.Sprintf("%s/%s/%s", c.client, route, mode)
}

// runMatrix runs every case through the edge, and on a separate worker without an
// edge, and prints the results. The quick run has one case of each client, through the
// edge: TestClients_GetInFromAnotherNamespace connects them directly.
func runMatrix(t *testing.T, b *edgeTest) {
	direct, edges := testEnv{account: b.account, cloud: b.cloud}, []*edgeTest{b}
	if testenv.Full() {
		direct.worker = startWorker(t, b.cloud, b.key, completeBrowsers)
		edges = append(edges, nil)
	}
	var table strings.Builder
	for i, client := range []string{"puppeteer", "playwright", "selenium", "chromedp", "rod"} {
		for _, edge := range edges {
			for _, headless := range []bool{true, false} {
				if !testenv.Full() && headless == (i%2 == 0) {
					continue
				}
				c := matrixCase{client, headless, edge}
				outcome := "not run"
				t.Run(c.name(), func(t *testing.T) {
					outcome = "FAILED"
					on := direct
					if edge != nil {
						on = b.testEnv
					}
					ended := c.run(t, on, b.request, b.goClient)
					if !t.Failed() {
						outcome = ended
					}
				})
				fmt.Fprintf(&table, "%-32s %s\n", c.name(), outcome)
			}
		}
	}
	t.Logf("the matrix:\n%s", table.String())
}

// run connects to a browser twice, ends it and returns how it ended.
func (c matrixCase) run(t *testing.T, on testEnv, request workerapi.LaunchProfileRequest, goClient string) string {
	running := on.usage(t).Current
	request.Browser = &workerapi.BrowserSettings{Headless: &c.headless}
	session := on.worker.launch(t, request)
	// These two clients cannot close a browser that they did not start.
	closes := c.client != "selenium" && c.client != "chromedp"
	input := map[string]any{"endpoint": *session.WebSocketDebuggerUrl, "url": servePage(t), "expression": "6 * 7", "key": c.edge != nil}
	for round := range 2 {
		input["close"] = closes && round == 1
		var result visit
		if err := c.visit(t, session, input, goClient, &result); err != nil {
			t.Fatalf("connection %d: %v", round+1, err)
		}
		if !result.matches(session) {
			t.Errorf("connection %d: saw %+v in Chromium %d", round+1, result, session.BrowserVersion)
		}
	}
	status, reason, how := sharedapi.SessionStatusExited, sharedapi.EndReasonClientClose, "ok, exited (the client closed it)"
	if !closes {
		status, reason, how = sharedapi.SessionStatusKilled, sharedapi.EndReasonKilled, "ok, killed (by request)"
		on.worker.killSession(t, session.Id)
	}
	if c.client == "selenium" {
		how += "; driven by debugPort on the host"
	}
	on.waitForSlots(t, running, 10*time.Second)
	on.assertFeed(t, session, status, reason)
	return how
}

func (c matrixCase) visit(t *testing.T, s workerapi.BrowserSession, input map[string]any, goClient string, result *visit) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	var cmd *exec.Cmd
	switch c.client {
	case "chromedp", "rod":
		cmd = exec.CommandContext(ctx, goClient, c.client)
	case "selenium": // its debuggerAddress cannot be a URL
		driver, err := exec.LookPath("chromedriver")
		if err != nil {
			return err
		}
		input["debugger"], input["driver"] = fmt.Sprintf("localhost:%d", *s.DebugPort), driver
		fallthrough
	default:
		cmd = exec.CommandContext(ctx, "node", "clients/"+c.client+".mjs")
	}
	if c.edge != nil {
		c.edge.trustEdge(cmd)
	}
	return runClient(cmd, input, result)
}

// buildGoClient builds clients/go, which is a separate module.
func buildGoClient(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(root, "bin", "e2e", "client"))
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = "clients/go", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build clients/go: %v\n%s", err, out)
	}
	return program
}
