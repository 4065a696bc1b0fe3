package e2e

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// contextVisit is a visit of a page in a browser context with a proxy of its own.
type contextVisit struct {
	Server   string `json:"server"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	URL      string `json:"url"`
}

// TestContexts_UseTheirProxies opens 20 browser contexts with 20 proxies that require
// credentials, in every way in, and checks the logs of all proxies. The quick run has
// each client, and each way once, two of them with 8 contexts.
func TestContexts_UseTheirProxies(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	profile := env.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: env.worker.newestVersion(t), IgnoreHTTPSErrors: new(true)})
	request := env.newLaunchRequest(t, true)
	request.ProfileId = &profile
	session := env.worker.launch(t, request)
	endpoints := map[string]string{
		"webSocketDebuggerUrl": *session.WebSocketDebuggerUrl,
		"debugPort":            fmt.Sprintf("http://127.0.0.1:%d", *session.DebugPort),
		"launch":               fmt.Sprintf("ws://%s/launch?token=%s&profile=%s&headless=true&timeout=300000", env.worker.address, env.key, profile),
	}
	var proxies []*testenv.Proxy
	for i := range 20 {
		proxies = append(proxies, testenv.StartProxy(t, []string{"http", "http", "http", "socks5"}[i%4]))
	}
	for way, endpoint := range endpoints {
		for _, client := range []string{"playwright", "puppeteer"} {
			if !testenv.Full() && (client == "playwright") != (way == "webSocketDebuggerUrl") {
				continue
			}
			used := proxies
			if !testenv.Full() && way != "webSocketDebuggerUrl" {
				used = proxies[:8]
			}
			t.Run(client+" "+way, func(t *testing.T) { visitInContexts(t, client, endpoint, used) })
		}
	}
}

func visitInContexts(t *testing.T, client, endpoint string, proxies []*testenv.Proxy) {
	var before []int // the pages of earlier clients may have had the same ports
	for _, p := range proxies {
		before = append(before, len(p.Log(t)))
	}
	var visits []contextVisit
	for i, p := range proxies {
		start := httptest.NewServer
		if i%2 == 1 {
			start = httptest.NewTLSServer
		}
		visit := contextVisit{Server: p.URL, Username: p.Username, Password: p.Password, URL: servePageOn(t, start)}
		if scheme, address, _ := strings.Cut(p.URL, "://"); scheme == "socks5" {
			if client == "playwright" {
				continue // it drops credentials of a URL and refuses those of a SOCKS proxy
			}
			visit = contextVisit{Server: scheme + "://" + p.Username + ":" + p.Password + "@" + address, URL: visit.URL}
		}
		visits = append(visits, visit)
	}
	own := servePage(t)
	var result struct{ Titles, Errors []string }
	runScript(t, "contexts", map[string]any{
		"client": client, "endpoint": endpoint, "visits": visits, "own": own, "refused": []string{"http://169.254.169.254:80", "ftp://proxy.test:21"},
	}, &result)
	for _, title := range result.Titles {
		if title != pageTitle {
			t.Errorf("a page has the title %q", title)
		}
	}
	if len(result.Titles) != len(visits)+1 || len(result.Errors) != 2 ||
		!strings.Contains(result.Errors[0], "the egress policy denies the proxy's address") || !strings.Contains(result.Errors[1], `the scheme "ftp" must be`) {
		t.Errorf("%d titles; errors %q", len(result.Titles), result.Errors)
	}
	port := func(page string) string { return page[strings.LastIndex(page, ":"):] }
	for i, p := range proxies {
		log := p.Log(t)[before[i]:]
		for _, visit := range visits {
			_, address, _ := strings.Cut(p.URL, "://")
			uses := strings.HasSuffix(visit.Server, address)
			if strings.Contains(log, "localhost"+port(visit.URL)) != uses {
				t.Errorf("requested through %s is %t:\n%s", p.URL, !uses, log)
			}
		}
		if strings.Contains(log, "localhost"+port(own)) {
			t.Errorf("%s got the request of the browser's own context:\n%s", p.URL, log)
		}
	}
}
