package e2e

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

const proxyPassword = "the-proxy-password"

func TestSecrets_AreNotLoggedOrInProcesses(t *testing.T) {
	t.Parallel()
	dsn := dbtest.NewDSN(t)
	env := newTestEnvOn(t, startCloud(t, "DATABASE_URL="+dsn), completeBrowsers)
	secrets := map[string]string{
		"the password": env.password, "the session token": env.token, "the organization key": env.key,
		"the worker key": env.worker.key, "the proxy password": proxyPassword,
		"the proxy's credentials": base64.StdEncoding.EncodeToString([]byte("robot:" + proxyPassword)),
	}
	if address, err := url.Parse(dsn); err == nil && address.User != nil {
		if password, ok := address.User.Password(); ok {
			secrets["the database's password"] = password
		}
	}
	for name, headless := range map[string]bool{"headless": true, "headful": false} {
		session := env.launchWithRefusingProxy(t, headless)
		token := controlToken(t, *session.WebSocketDebuggerUrl)
		secrets["the control token of the "+name+" browser"] = token
		assertDrivable(t, session, servePage(t))
		if err := checkPages(*session.ViewUrl, *session.DevtoolsFrontendUrl); err != nil {
			t.Error(err)
		}
		env.sendMisplacedSecrets(t, session, token)
	}
	running := append(browserProcesses(env.worker.launches), processes(func(p process) bool {
		return p.pid == env.worker.cmd.Process.Pid || p.pid == env.cloud.cmd.Process.Pid
	})...)
	if countProcesses(running, "--type=renderer") < 2 || countProcesses(running, "svc-") < 2 {
		t.Fatalf("the processes to check are not complete: %v", running)
	}
	logs := map[string]string{"the cloud's log": env.cloud.logText(), "the worker's log": env.worker.logText()}
	for name, secret := range secrets {
		for where, log := range logs {
			if strings.Contains(log, secret) {
				t.Errorf("%s is in %s", name, where)
			}
		}
		for _, p := range running {
			ours := p.pid == env.worker.cmd.Process.Pid || p.pid == env.cloud.cmd.Process.Pid
			if strings.Contains(p.command, secret) || !ours && strings.Contains(p.environment, secret) {
				t.Errorf("%s is in the command line or environment of %v", name, p)
			}
		}
	}
	for _, file := range []string{env.worker.log, env.cloud.log} {
		if info, err := os.Stat(file); err != nil || info.Size() < 1000 {
			t.Errorf("%s is too short for this check: %v", file, err)
		}
	}
}

func controlToken(t *testing.T, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil || parsed.Query().Get("ct") == "" {
		t.Fatalf("no control token in %s", address)
	}
	return parsed.Query().Get("ct")
}

// launchWithRefusingProxy launches a browser whose start pages use a proxy. The
// proxy accepts the credentials once, for the check of the launch, and then refuses
// them.
func (s testEnv) launchWithRefusingProxy(t *testing.T, headless bool) workerapi.BrowserSession {
	t.Helper()
	var requests atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" && requests.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Proxy-Authenticate", `Basic realm="the test"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	id := s.profile(t, cloudapi.CreateProfileRequest{
		BrowserVersion: s.worker.newestVersion(t), StartUrls: &sharedapi.StartUrls{"http://shop.example/", "https://shop.example/"},
		Proxy: &sharedapi.ProxySettings{Server: proxy.URL, Username: new("robot"), Password: new(proxyPassword)},
	})
	session := s.worker.launch(t, workerapi.LaunchProfileRequest{ProfileId: &id, Browser: &workerapi.BrowserSettings{Headless: &headless}})
	eventually(t, 10*time.Second, "the browser uses the proxy", func() error {
		if requests.Load() < 2 {
			return errors.New("the browser has not sent the credentials")
		}
		return nil
	})
	return session
}

// sendMisplacedSecrets sends secrets in the wrong parts of requests. The responses
// must not contain them.
func (s testEnv) sendMisplacedSecrets(t *testing.T, session workerapi.BrowserSession, token string) {
	t.Helper()
	launch := s.worker.url + "/browsers/" + session.LaunchId.String()
	for _, c := range []struct{ method, address, header, value, body string }{
		{http.MethodGet, s.worker.url + "/sessions?ct=" + token, "X-API-Key", s.key, ""},
		{http.MethodGet, launch + "/nothing?ct=" + token, "X-API-Key", s.worker.key, ""},
		{http.MethodGet, launch + "x/view?ct=" + token, "X-Svc-Token", token, ""},
		{http.MethodGet, s.cloud.url + "/v1/profiles", "X-API-Key", s.key, ""},
		{http.MethodGet, s.cloud.url + "/v1/profiles?token=" + s.token, "Authorization", "Bearer " + s.token, ""},
		{http.MethodGet, s.cloud.url + "/v1/license/sessions", "X-API-Key", s.worker.key, ""},
		{http.MethodPost, s.cloud.url + "/v1/auth/sign-in", "", "", `{"email":"` + s.email + `x","password":"` + s.password + `"}`},
		{http.MethodPost, s.cloud.url + "/v1/auth/sign-in", "", "", `{"email":1,"password":"` + s.password + `"} and more`},
		{
			http.MethodPost, s.cloud.url + "/v1/profiles", "Authorization", "Bearer " + s.token,
			`{"name":"","browserVersion":156,"proxy":{"server":"no","password":"` + proxyPassword + `"}}`,
		},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, c.address, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if c.header != "" {
			request.Header.Set(c.header, c.value)
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		_ = answer.Write(&body)
		answer.Body.Close()
		if answer.StatusCode < 400 {
			t.Errorf("%s %s returned %s", c.method, request.URL.Path, answer.Status)
		}
		for _, secret := range []string{s.password, s.key, s.worker.key, proxyPassword} {
			if strings.Contains(body.String(), secret) {
				t.Errorf("the response of %s %s contains a secret:\n%s", c.method, request.URL.Path, body.String())
			}
		}
	}
}
