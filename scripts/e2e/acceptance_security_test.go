package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func (a *acceptance) debugPort(t *testing.T) {
	session := a.worker.get(t, "/sessions/"+a.demo.session).requireStatus(t, 200)
	address := fmt.Sprintf("http://127.0.0.1:%d", session.number("data.debugPort"))
	a.anonymous.get(t, address+"/json/version").requireStatus(t, 200)
	for _, origin := range []string{address, "null", "https://evil.example"} {
		a.anonymous.with("Origin", origin).get(t, address+"/json/version").requireStatus(t, 403)
		a.anonymous.with("Origin", origin).do(t, "PUT", address+"/json/new?about:blank", "").requireStatus(t, 403)
	}
}

// loopbackAddresses opens addresses of this host in a browser. With `make run`, browsers can
// reach all servers of the loopback interface except those of svc.
func (a *acceptance) loopbackAddresses(t *testing.T) {
	launched := a.launch(t, a.launchRequest())
	base := "/browsers/" + launched.text("data.launchId")
	shows := func(address string) string {
		t.Helper()
		opened := a.worker.post(t, base+"/navigate", fmt.Sprintf(`{"url":%q}`, address)).requireStatus(t, 200)
		socket := strings.Replace(a.worker.base, "http:", "ws:", 1) + base + "/devtools/page/" + opened.text("data.targetId")
		return evaluateCDP(t, socket, http.Header{"X-Api-Key": {a.demo.key}}, "Runtime.evaluate", `{"expression":"document.body.innerText"}`, "result.value")
	}
	if text := shows(servePage(t)); strings.Contains(text, " is denied by the egress policy ") {
		t.Errorf("a server on the loopback interface is denied: %s", text)
	}
	addresses := a.startHostServer(t)
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "127.1.2.3", "[::ffff:127.0.0.1]"} {
		for _, port := range []string{a.demo.cloudPort, a.demo.workerPort, strconv.Itoa(launched.number("data.debugPort"))} {
			addresses = append(addresses, "http://"+host+":"+port+"/health")
		}
	}
	for _, address := range addresses {
		if text := shows(address); !strings.Contains(text, " is denied by the egress policy ") {
			t.Errorf("%s shows %q", address, text)
		}
	}
}

// startHostServer starts a server on an address of this host that is not a loopback
// address, if there is one.
func (a *acceptance) startHostServer(t *testing.T) []string {
	t.Helper()
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range own {
		network, ok := each.(*net.IPNet)
		if !ok || network.IP.IsLoopback() || network.IP.IsLinkLocalUnicast() {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(network.IP.String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached") }))
		server.Listener.Close()
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
		a.anonymous.get(t, server.URL).requireStatus(t, 200)
		return []string{server.URL}
	}
	return nil
}

func (a *acceptance) longHeaders(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n<<10) }
	a.cloud.with("X-Long", long(50)).get(t, "/v1/plans").requireStatus(t, 200)
	a.cloud.with("X-Long", long(100)).get(t, "/v1/plans").requireError(t, 431, "VALIDATION_ERROR", "headers")
}

func (a *acceptance) keysInPaths(t *testing.T) {
	key := a.demo.organizationKey
	a.fleet.get(t, "/v1/"+key).requireStatus(t, 404)
	a.worker.get(t, "/"+key).requireStatus(t, 404)
	for _, program := range []string{"cloud", "worker"} {
		log := filepath.Join(a.data, program+".log")
		eventually(t, 10*time.Second, log+" contains the request", func() error {
			text, err := os.ReadFile(log)
			if err == nil && !strings.Contains(string(text), "svc_***") {
				err = fmt.Errorf("the log has %d bytes", len(text))
			}
			if strings.Contains(string(text), key[len("svc_"):]) {
				t.Errorf("%s contains the key", log)
			}
			return err
		})
	}
}

func (a *acceptance) switchesAndTabs(t *testing.T) {
	for _, arg := range []string{"--diagnostics", "--variations-server-url=http://example.com/", "--force-fieldtrials=a/b/"} {
		a.worker.post(t, "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"args":[%q]}}`, a.profile, arg)).
			requireError(t, 400, "VALIDATION_ERROR", "browser.args[0]")
	}
	launched := a.launch(t, a.launchRequest())
	base := "/browsers/" + launched.text("data.launchId")
	cookie := a.anonymous.with("Cookie", setCookie(t, a.anonymous.get(t, launched.text("data.viewUrl")).requireStatus(t, 303)))
	tab := a.worker.do(t, "PUT", base+"/json/new?about:blank", "").requireStatus(t, 200).text("id")
	for _, action := range []string{"/json/activate/", "/json/close/"} {
		cookie.get(t, base+action+tab).requireStatus(t, 404)
		cookie.with("Sec-Fetch-Site", "cross-site").get(t, base+action+tab).requireStatus(t, 404)
		cookie.with("Sec-Fetch-Site", "same-origin").get(t, base+action+tab).requireStatus(t, 200)
	}
}

func (a *acceptance) viewTicketRenewal(t *testing.T) {
	launched := a.launch(t, a.launchRequest())
	path := "/browsers/" + launched.text("data.launchId") + "/view-ticket"
	expires := func(by apiClient) (token string, expiry time.Time) {
		t.Helper()
		created := by.post(t, path, "").requireStatus(t, 200)
		expiry, err := time.Parse(time.RFC3339, created.text("data.controlExpiresAt"))
		if err != nil {
			t.Fatal(err)
		}
		return created.text("data.controlToken"), expiry
	}
	startedAt, err := time.Parse(time.RFC3339, launched.text("data.startedAt"))
	if err != nil {
		t.Fatal(err)
	}
	token, latest := controlToken(t, launched.text("data.webSocketDebuggerUrl")), startedAt.Add(12*time.Hour+time.Second)
	for range 3 {
		renewed, expiry := expires(a.anonymous.with("X-Svc-Token", token))
		if expiry.After(latest) {
			t.Errorf("a token that expires at %v created one that expires at %v", latest, expiry)
		}
		token, latest = renewed, expiry
	}
	if _, expiry := expires(a.worker); expiry.Before(latest) {
		t.Errorf("the worker key created a token that expires at %v", expiry)
	}
}

func (a *acceptance) unknownProfileEnds(t *testing.T) {
	a.fleet.do(t, "DELETE", "/v1/profiles/"+uuid.NewString()+"/sessions/"+uuid.NewString(), "").requireError(t, 404, "RESOURCE_NOT_FOUND")
}

// signUpLimits runs late: after it, sign-ups from this network are refused for an hour.
func (a *acceptance) signUpLimits(t *testing.T) {
	again := func(email, password string) response {
		return a.cloud.post(t, "/v1/auth/sign-up", fmt.Sprintf(`{"email":%q,"password":%q,"name":"Ada"}`, email, password))
	}
	again("guess@example.com", strings.Repeat(" ", 12)).requireError(t, 400, "VALIDATION_ERROR", "password")
	again("trivial.password@example.com", "trivial.password@example.com").requireError(t, 400, "VALIDATION_ERROR", "password")
	for i := range 12 {
		answer := again(a.demo.email, "a password of another user")
		if answer.status == http.StatusTooManyRequests {
			answer.requireError(t, 429, "RATE_LIMIT_EXCEEDED")
			if wait, err := strconv.Atoi(answer.header.Get("Retry-After")); err != nil || wait < 1 {
				t.Errorf("Retry-After is %q", answer.header.Get("Retry-After"))
			}
			return
		}
		if i == 10 {
			t.Errorf("the eleventh sign-up of an hour returned %d: %s", answer.status, answer.body)
		}
	}
}
