package browser_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// startDriver starts chromedriver for a browser.
func (r *fixture) startDriver(t *testing.T, b *browser.Browser) *browser.Driver {
	t.Helper()
	program, err := builds.NewDriverFinder("", builds.FindOptions{Log: testLog(t)}).Find(t.Context(), r.build)
	if err != nil {
		t.Fatal(err)
	}
	d, err := b.StartDriver(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drivers returns the processes of chromedriver.
func (r *fixture) drivers(b *browser.Browser) (pids []int) {
	return processesWhere(func(pid, _, uid int) bool {
		return uid == b.UID() && strings.Contains(environ(pid), "SVC_LAUNCH="+r.dir+"/"+b.LaunchID) && strings.Contains(commandLine(pid), "chromedriver")
	})
}

func commandLine(pid int) string {
	raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return string(raw)
}

func TestStartDriver_ReachesOnlyItsBrowser(t *testing.T) {
	r := newIsolatedFixture(t)
	if !r.SupportsDrivers() {
		t.Fatal("this host has no network namespaces; these tests need them")
	}
	b := r.launch(t, r.spec("driven"))
	d := r.startDriver(t, b)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.Dial(ctx) }}}
	defer client.CloseIdleConnections()
	answer, err := client.Post("http://127.0.0.1:9515/session", "application/json",
		strings.NewReader(`{"capabilities":{"alwaysMatch":{"goog:chromeOptions":{"debuggerAddress":"`+browser.DriverBrowser+`"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || !bytes.Contains(text, []byte(`"browserVersion":"`+r.build.Version)) {
		t.Errorf("the session: %s %v", text, err)
	}
	if _, err := http.Get("http://127.0.0.1:9515/status"); err == nil {
		t.Error("the host reaches chromedriver")
	}
	assertFilesChecked(t, client, text)
	if n := len(r.drivers(b)); n != 1 {
		t.Errorf("%d chromedrivers run as the browser's user", n)
	}
	d.Close()
	select {
	case <-b.Done():
		t.Error("the browser has ended with chromedriver")
	default:
	}
	second := r.startDriver(t, b)
	if err := b.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-second.Done()
	if _, err := b.StartDriver(t.Context(), "/nonexistent"); !errors.Is(err, browser.ErrEnded) {
		t.Errorf("a start after the end: %v", err)
	}
	r.assertNoLeaks(t)
}

// assertFilesChecked sends chromedriver keys for a file input: a path that the browser
// cannot read.
func assertFilesChecked(t *testing.T, client *http.Client, created []byte) {
	t.Helper()
	var session struct{ Value struct{ SessionID string } }
	unmarshal(t, created, &session)
	send := func(command, body string) string {
		t.Helper()
		answer, err := client.Post("http://127.0.0.1:9515/session/"+session.Value.SessionID+command, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	send("/url", `{"url":"data:text/html,<input type=file>"}`)
	var found struct{ Value map[string]string }
	unmarshal(t, []byte(send("/element", `{"using":"css selector","value":"input"}`)), &found)
	for _, element := range found.Value {
		if refusal := send("/element/"+element+"/value", `{"text":"/no/such/file"}`); !strings.Contains(refusal, "The browser has no file") {
			t.Errorf("a missing file: %s", refusal)
		}
	}
	if len(found.Value) != 1 {
		t.Errorf("found %v", found.Value)
	}
}

func TestStartDriver_ReportsFailures(t *testing.T) {
	r := newIsolatedFixture(t)
	b := r.launch(t, r.spec("driven"))
	for program, want := range map[string]string{"/usr/bin/nonexistent": "no such file", "/usr/bin/false": "exited"} {
		if _, err := b.StartDriver(t.Context(), program); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", program, err, want)
		}
	}
	plain := newIsolatedFixture(t, sandbox.NetworkNamespace)
	if _, err := plain.launch(t, plain.spec("plain")).StartDriver(t.Context(), "/usr/bin/false"); plain.SupportsDrivers() || !errors.Is(err, browser.ErrNoDriverNetwork) {
		t.Errorf("without a separate network: %v", err)
	}
}
