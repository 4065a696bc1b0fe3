package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// demo is a run of `make run` and what it has printed.
type demo struct {
	*program
	printed               string
	email, password       string
	organizationKey, key  string
	worker, session       string
	cloudPort, workerPort string
	snippet               string
	dashboard             string // the sign-in link
}

// mostLines is the limit of what make run prints.
const mostLines = 15

var (
	demoSummary = regexp.MustCompile(`(?s)\n\nDashboard +(\S+) .*Worker +(\S+) .*Keys +(\S+)\n.* session ([0-9a-f-]{36})\n\n  (\. [^\n]* && svc run -- [^\n]*)\n`)
	demoAccount = regexp.MustCompile(`(?s)sign in as (\S+) with the password (\S+)\n.*SVC_API_KEY='(\S+)'.*SVC_ORGANIZATION_KEY='(\S+)'`)
)

// startDemo starts the program of `make run` with its own data directory and ports,
// and parses its output.
func startDemo(t *testing.T, dir string, ports [2]string) demo {
	t.Helper()
	log := filepath.Join(dir, "run-"+uuid.NewString()+".log")
	environment := []string{"SVC_DIR=" + filepath.Join(dir, "data"), "CLOUD_PORT=" + ports[0], "WORKER_PORT=" + ports[1], "PLAYWRIGHT=0"}
	for _, variable := range os.Environ() { // the program runs go build
		if strings.HasPrefix(variable, "GO") {
			environment = append(environment, variable)
		}
	}
	r := demo{program: startProgram(t, "run", root, log, environment...), cloudPort: ports[0], workerPort: ports[1]}
	eventually(t, 2*readyTimeout, "make run is ready", func() error {
		if r.hasExited() {
			t.Fatalf("make run ended: %s\n%s", r.cmd.ProcessState, r.logText())
		}
		if r.printed = r.logText(); !strings.Contains(r.printed, "Ctrl-C stops all programs") {
			return errors.New("the last line is not printed yet")
		}
		return nil
	})
	found := demoSummary.FindStringSubmatch(r.printed)
	if found == nil {
		t.Fatalf("the output does not have the expected form:\n%s", r.printed)
	}
	if lines := strings.Count(r.printed, "\n"); lines > mostLines || strings.Contains(r.printed, "ct=") {
		t.Errorf("make run printed %d lines, want at most %d without tokens:\n%s", lines, mostLines, r.printed)
	}
	r.dashboard, r.worker, r.session, r.snippet = found[1], found[2], found[4], found[5]
	info, err := os.Stat(found[3])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the keys: %v, %v", info, err)
	}
	keys, err := os.ReadFile(found[3])
	account := demoAccount.FindStringSubmatch(string(keys))
	if account == nil {
		t.Fatalf("the file of the keys has %s: %v", keys, err)
	}
	r.email, r.password, r.key, r.organizationKey = account[1], account[2], account[3], account[4]
	return r
}

// browser returns the running browser.
func (r demo) browser(t *testing.T) workerapi.BrowserSession {
	t.Helper()
	api, err := workerapi.NewClientWithResponses(r.worker, workerapi.WithHTTPClient(contractClient(t, workerDocument, "X-API-Key", r.key)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := api.GetBrowserSessionWithResponse(t.Context(), uuid.MustParse(r.session))
	requireAnswer(t, err, answer, http.StatusOK)
	return answer.JSON200.Data
}

// assertLinkSignsIn exchanges the token of the printed link, as the dashboard does.
func (r demo) assertLinkSignsIn(t *testing.T) {
	t.Helper()
	address, token, _ := strings.Cut(r.dashboard, "/sign-in/link#token=")
	api, err := cloudapi.NewClientWithResponses(address, cloudapi.WithHTTPClient(contractClient(t, cloudDocument, "Accept", "application/json")))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := api.SignInWithLinkWithResponse(t.Context(), cloudapi.SignInWithLinkRequest{Token: &token})
	requireAnswer(t, err, answer, http.StatusOK)
	if got := string(answer.JSON200.Data.User.Email); got != r.email || answer.JSON200.Data.ActiveOrganizationId == nil {
		t.Errorf("the printed link signs in %s, want %s in an organization", got, r.email)
	}
}

// assertSnippetWorks runs the printed commands in a shell.
func (r demo) assertSnippetWorks(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh")
	shell.Dir, shell.Stdin = root, strings.NewReader(r.snippet)
	if out, err := shell.Output(); err != nil || !strings.HasPrefix(string(out), "Connect to ws://localhost:"+r.workerPort+"/browsers/") {
		t.Errorf("the printed command\n%s\nfailed: %v\n%s", r.snippet, err, out)
	}
}

// assertGone fails the test if processes, files or open ports of the run remain
// after the limit.
func (r demo) assertGone(t *testing.T, limit time.Duration, dir string, before []process) {
	t.Helper()
	assertGone(t, limit, before, dir)
	assertClosed(t, r.cloudPort)
	assertClosed(t, r.workerPort)
}

func TestMakeRun_PrintedCommandGetsBrowser(t *testing.T) {
	t.Parallel()
	dir, ports := publicDir(t), [2]string{freePort(t), freePort(t)}
	launches := filepath.Join(dir, "data", "worker", "launches")
	first := startDemo(t, dir, ports)
	first.assertLinkSignsIn(t)
	first.assertSnippetWorks(t)
	browser := first.browser(t)
	if err := checkPages(*browser.ViewUrl, *browser.DevtoolsFrontendUrl, first.worker+"/docs", "http://localhost:"+ports[0]+"/docs"); err != nil {
		t.Error(err)
	}
	before := browserProcesses(launches)
	first.signalAndWait(t, syscall.SIGINT, 20*time.Second)
	first.assertGone(t, 0, dir, before)
	assertNoDirectories(t, launches)

	second := startDemo(t, dir, ports)
	if second.email != first.email || second.password != first.password || second.organizationKey != first.organizationKey || second.key != first.key {
		t.Errorf("the second run printed a different account:\n%s", second.printed)
	}
	if found := second.browser(t).ProfileId; found != browser.ProfileId {
		t.Errorf("the second run has profile %s, want %s", found, browser.ProfileId)
	}
	if second.session == first.session {
		t.Error("the second run printed the session of the first run")
	}
	second.assertLinkSignsIn(t)
	second.assertSnippetWorks(t)
	before = browserProcesses(launches)
	second.kill() // the next boot removes the launch directories
	second.assertGone(t, 20*time.Second, dir, before)
}

// TestMakeRun_RefusesPortInUse also checks that the program on the port gets no
// request.
func TestMakeRun_RefusesPortInUse(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"CLOUD_PORT", "WORKER_PORT"} {
		requests := atomic.Int64{}
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
		defer server.Close()
		_, port, err := net.SplitHostPort(server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		dir := publicDir(t)
		environment := []string{"SVC_DIR=" + filepath.Join(dir, "data"), "CLOUD_PORT=" + freePort(t), "WORKER_PORT=" + freePort(t), variable + "=" + port}
		p := startProgram(t, "run", root, filepath.Join(dir, "run.log"), environment...)
		select {
		case <-p.done:
		case <-time.After(readyTimeout):
			t.Fatal("the program did not exit")
		}
		want := "make run: port " + port + " is in use: stop the program that uses it, or set " + variable + " to another port"
		if status := p.cmd.ProcessState.ExitCode(); status != 1 || !strings.Contains(p.logText(), want) || requests.Load() > 0 {
			t.Errorf("%s: status %d, %d requests to the other program, want %q:\n%s", variable, status, requests.Load(), want, p.logText())
		}
		if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the data directory was created (%v)", variable, err)
		}
	}
}

func TestMakeRun_PrintsHelp(t *testing.T) {
	t.Parallel()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "run"), "--help").Output()
	if err != nil || !strings.Contains(string(out), "CLOUD_PORT") || !strings.HasPrefix(string(out), "svc-run: ") {
		t.Errorf("--help: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "run"), "--hepl").CombinedOutput(); err == nil || !strings.Contains(string(out), "unknown argument") {
		t.Errorf("--hepl: %v\n%s", err, out)
	}
}

// TestMakeRun_InstallsWebDriver checks the programs that make run installs for /wd/hub:
// the tests themselves find a chromedriver, since make test installs one.
func TestMakeRun_InstallsWebDriver(t *testing.T) {
	t.Parallel()
	commands := exec.CommandContext(t.Context(), "make", "--no-print-directory", "--dry-run", "run")
	commands.Dir = root
	out, err := commands.CombinedOutput()
	if needed, _, _ := strings.Cut(string(out), "\n"); err != nil || !strings.Contains(needed+" ", " chromedriver ") {
		t.Errorf("make run installs no chromedriver: %v\n%s", err, out)
	}
}

// checkPages returns an error unless a client with cookies gets a page from each URL.
// The URLs of a launch contain the same token, which the first page exchanges for a
// cookie.
func checkPages(addresses ...string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	person := http.Client{Timeout: 10 * time.Second, Jar: jar}
	var failed error
	for _, address := range addresses {
		failed = errors.Join(failed, checkPage(&person, address))
	}
	return failed
}

func checkPage(person *http.Client, address string) error {
	answer, err := person.Get(address)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var page bytes.Buffer
	if _, err := page.ReadFrom(answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || !bytes.Contains(bytes.ToLower(page.Bytes()), []byte("<!doctype html")) {
		return fmt.Errorf("%s: %s\n%s", answer.Request.URL, answer.Status, page.String())
	}
	if answer.Request.URL.Query().Has("ct") {
		return fmt.Errorf("the URL of the page %s still contains the token", answer.Request.URL.Path)
	}
	return nil
}
