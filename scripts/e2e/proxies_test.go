package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// TestProxies_DistributionPackages launches through the proxies that distributions
// package, and checks the logs of the proxies.
func TestProxies_DistributionPackages(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t)
	profile := s.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: s.worker.newestVersion(t), IgnoreHTTPSErrors: new(true)})
	for _, scheme := range []string{"http", "socks5"} {
		p := proxyTest{s, testenv.StartProxy(t, scheme), profile}
		t.Run(scheme+" refuses a wrong password", p.testRefusal)
		t.Run(scheme+" forwards the traffic", p.testTraffic)
	}
}

// proxyTest is a test environment whose browsers use a proxy.
type proxyTest struct {
	testEnv
	proxy   *testenv.Proxy
	profile uuid.UUID
}

func (p proxyTest) request(t *testing.T, password string) workerapi.LaunchProfileRequest {
	t.Helper()
	override, err := json.Marshal(sharedapi.ProxySettings{
		Server: p.proxy.URL, Username: &p.proxy.Username, Password: &password, Bypass: new("<-loopback>"), // use the proxy for this machine, too
	})
	if err != nil {
		t.Fatal(err)
	}
	return workerapi.LaunchProfileRequest{ProfileId: &p.profile, ProxyOverride: override}
}

func (p proxyTest) testRefusal(t *testing.T) {
	const password = "no-such-password-at-all"
	before := p.authorizeCalls()
	var refusal sharedapi.Error
	processes := processesDuring(func() { refusal = p.worker.requireLaunchRefused(t, p.request(t, password), http.StatusBadRequest) })
	want := sharedapi.Error{
		Code: sharedapi.ErrorCodeVALIDATIONERROR, Message: "The proxy refuses the credentials.",
		Details: &[]sharedapi.ErrorDetail{{Field: "proxyOverride.server", Code: sharedapi.ErrorDetailCodeCUSTOM, Message: "refuses the credentials"}},
	}
	if diff := cmp.Diff(want, refusal); diff != "" {
		t.Errorf("the response (-want +got):\n%s", diff)
	}
	if charged := p.usage(t); charged.Current != 0 || charged.ReservedSlots != 0 || p.authorizeCalls() != before {
		t.Errorf("charged %+v, the worker sent %d authorize calls", charged, p.authorizeCalls()-before)
	}
	if started := processesContaining(processes, p.worker.launches+"/"); len(started) > 0 {
		t.Errorf("the refused launch started %v", started)
	}
	p.assertNotInProcesses(t, password, processes)
}

func (p proxyTest) testTraffic(t *testing.T) {
	plain, secure := servePageOn(t, httptest.NewServer), servePageOn(t, httptest.NewTLSServer)
	p.assertNotRequested(t, plain, secure)
	var session workerapi.BrowserSession
	processes := processesDuring(func() {
		session = p.worker.launch(t, p.request(t, p.proxy.Password))
		p.assertNotRequested(t, plain, secure)
		p.assertUsage(t, session)
		assertDrivable(t, session, plain)
		assertDrivable(t, session, secure)
	})
	p.worker.killSession(t, session.Id)
	p.waitForSlots(t, 0, 10*time.Second)
	host := func(address string) string { _, host, _ := strings.Cut(address, "://"); return host }
	lines := map[string][]string{
		"http":   {"GET " + plain + "/ HTTP", "CONNECT " + host(secure) + " HTTP", `Established connection to host "localhost"`},
		"socks5": {"connected to " + host(plain), "connected to " + host(secure)},
	}
	scheme, _, _ := strings.Cut(p.proxy.URL, "://")
	for _, line := range lines[scheme] {
		if log := p.proxy.Log(t); !strings.Contains(log, line) {
			t.Errorf("the proxy's log does not contain %q:\n%s", line, log)
		}
	}
	if renderers := processesContaining(processes, p.worker.launches+"/"); len(renderers) == 0 {
		t.Error("no process of the browser was seen")
	}
	p.assertNotInProcesses(t, p.proxy.Password, processes)
}

// assertNotRequested fails the test if the proxy got a request for one of the pages.
func (p proxyTest) assertNotRequested(t *testing.T, pages ...string) {
	t.Helper()
	for _, page := range pages {
		if log, port := p.proxy.Log(t), page[strings.LastIndex(page, ":"):]; strings.Contains(log, "localhost"+port) {
			t.Errorf("the proxy already got a request for %s:\n%s", page, log)
		}
	}
}

// authorizeCalls returns the number of authorize calls of the worker.
func (p proxyTest) authorizeCalls() int {
	return strings.Count(p.cloud.logText(), "route=/v1/license/authorize")
}

// assertNotInProcesses fails the test if the password is in a log, or in the command
// line or environment of a process.
func (p proxyTest) assertNotInProcesses(t *testing.T, password string, processes []process) {
	t.Helper()
	for _, form := range []string{password, base64.StdEncoding.EncodeToString([]byte(p.proxy.Username + ":" + password))} {
		for name, log := range map[string]string{"the worker": p.worker.logText(), "the cloud": p.cloud.logText()} {
			if log == "" || strings.Contains(log, form) {
				t.Errorf("%s contains the password, or is empty", name)
			}
		}
		if showing := processesContaining(processes, form); len(processes) == 0 || len(showing) > 0 {
			t.Errorf("of %d processes, these have the password in their command line or environment: %v", len(processes), showing)
		}
	}
}

// processesDuring returns all processes of this machine that were seen while do ran,
// one entry for each command line and environment of a process.
func processesDuring(do func()) []process {
	var found []process
	known := map[string]bool{}
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			for _, p := range processes(func(process) bool { return true }) {
				if key := fmt.Sprint(p.pid, p.command, p.environment); !known[key] {
					known[key], found = true, append(found, p)
				}
			}
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	func() {
		defer watch.Wait() // do may end the test
		defer close(ended)
		do()
	}()
	return found
}

// processesContaining returns the processes whose command line or environment contains the
// text.
func processesContaining(processes []process, text string) []process {
	var found []process
	for _, p := range processes {
		if p.mentions(text) {
			found = append(found, p)
		}
	}
	return found
}
