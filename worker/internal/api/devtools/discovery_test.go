package devtools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/intercept"
)

// decodeAnswer decodes a JSON answer.
func decodeAnswer[T any](t *testing.T, got response) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(got.body), &value); err != nil || got.status != 200 {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	return value
}

func TestDiscovery_UsesPublicAddressOnly(t *testing.T) {
	real, b, _ := newRealTestServer(t)
	for public, want := range map[string]struct{ web, socket, query string }{
		"http://worker.example:38923":     {"http://worker.example:38923", "ws://worker.example:38923", "ws"},
		"https://edge.example/w/worker-1": {"https://edge.example/w/worker-1", "wss://edge.example/w/worker-1", "wss"},
	} {
		w := newTestServer(t, public)
		w.add(b, true)
		token := w.token(t, ticket.Control)
		base := want.socket + "/browsers/" + launch
		for _, path := range []string{"/json/version", "/json/version/"} {
			version := decodeAnswer[map[string]string](t, do(t, "GET", w.path(path), "X-Svc-Token", token))
			if version["webSocketDebuggerUrl"] != base+b.WebSocketPath+"?ct="+token || version["Protocol-Version"] != "1.3" || !strings.Contains(version["Browser"], "Chrom") {
				t.Errorf("%s: %v", path, version)
			}
		}
		for _, path := range []string{"/json", "/json/", "/json/list", "/json/list/"} {
			got := do(t, "GET", w.path(path), "X-Svc-Token", token)
			targets := decodeAnswer[[]map[string]string](t, got)
			if len(targets) == 0 {
				t.Fatalf("%s: no targets", path)
			}
			for _, target := range targets {
				socket := base + "/devtools/page/" + target["id"]
				if target["webSocketDebuggerUrl"] != socket+"?ct="+token {
					t.Errorf("%s: %v", path, target)
				}
				_, host, _ := strings.Cut(socket, "://")
				frontEnd := want.web + "/browsers/" + launch + "/devtools/inspector.html?" + url.Values{"ct": {token}, want.query: {host}}.Encode()
				if target["devtoolsFrontendUrl"] != frontEnd {
					t.Errorf("%s: %s, want %s", path, target["devtoolsFrontendUrl"], frontEnd)
				}
			}
			for _, inner := range []string{":" + strconv.Itoa(b.DebugPort), "appspot", "ws://127.0.0.1"} {
				if strings.Contains(got.body, inner) {
					t.Errorf("%s contains %s: %s", path, inner, got.body)
				}
			}
		}
	}

	fresh := decodeAnswer[map[string]string](t, do(t, "GET", real.path("/json/version"), "X-API-Key", workerKey))
	_, token, _ := strings.Cut(fresh["webSocketDebuggerUrl"], "?ct=")
	if _, err := real.tickets.Verify(token, launch, ticket.Control); err != nil {
		t.Errorf("with the worker key: %v in %v", err, fresh)
	}
	if got := do(t, "GET", real.path("/json/protocol/"), real.controlHeader(t)...); got.status != 200 || !strings.Contains(got.body, `"domain": "Page"`) {
		t.Errorf("protocol: %d %.100s", got.status, got.body)
	}
	real.add(b, false)
	for _, target := range decodeAnswer[[]map[string]any](t, do(t, "GET", real.path("/json"), real.controlHeader(t)...)) {
		if _, ok := target["devtoolsFrontendUrl"]; ok || target["webSocketDebuggerUrl"] == "" {
			t.Errorf("a build without a front end: %v", target)
		}
	}
	for _, path := range []string{"/devtools", "/devtools/inspector.html", "/devtools/x.js"} {
		if got := do(t, "GET", real.path(path), real.controlHeader(t)...); got.status != 404 || !strings.Contains(got.body, "does not include the DevTools front end") {
			t.Errorf("%s of a build without a front end: %d %s", path, got.status, got.body)
		}
	}
}

func TestDiscovery_OpensPagesWithSettingsBlank(t *testing.T) {
	w, b, _ := newRealTestServer(t)
	var navigated []string
	launch, _ := w.finder.Find(b.LaunchID)
	launch.Calls = intercept.New(intercept.Options{
		HasSettings: func() bool { return true },
		Navigate:    func(targetID, url string) { navigated = append(navigated, targetID+" "+url) },
	})
	w.finder.add(launch)
	const page = "http://site.test/?a=b%26c&d"
	opened := decodeAnswer[map[string]string](t, send(t, "PUT", w.path("/json/new?"+url.QueryEscape(page)), "", w.controlHeader(t)...))
	if want := opened["id"] + " " + page; opened["url"] != page || len(navigated) != 1 || navigated[0] != want {
		t.Errorf("got %v, navigated %q", opened, navigated)
	}
	listed := send(t, "GET", w.path("/json/list"), "", w.controlHeader(t)...)
	if strings.Contains(listed.body, "site.test") {
		t.Errorf("the browser opened the page itself: %s", listed.body)
	}
}

func TestDiscovery_OpensActivatesAndClosesTargets(t *testing.T) {
	w, _, _ := newRealTestServer(t)
	page := newSite(t) + "/red?a=b%26c&d=%20e"
	for _, method := range []string{"PUT", "POST"} {
		for _, slash := range []string{"", "/"} {
			opened := decodeAnswer[map[string]string](t, send(t, method, w.path("/json/new"+slash+"?"+url.QueryEscape(page)), "", w.controlHeader(t)...))
			if opened["url"] != page || !strings.HasPrefix(opened["webSocketDebuggerUrl"], w.socket("/devtools/page/"+opened["id"]+"?ct=")) {
				t.Errorf("%s: %v", method, opened)
			}
			for _, step := range [][2]string{{"/json/activate/", "Target activated"}, {"/json/close/", "Target is closing"}} {
				if got := do(t, "GET", w.path(step[0]+opened["id"]+slash), w.controlHeader(t)...); got.status != 200 || got.body != step[1] {
					t.Errorf("%s: %d %s", step[0], got.status, got.body)
				}
			}
			testenv.Eventually(t, "closed", func() bool { return !strings.Contains(strings.Join(w.pages(t), " "), opened["id"]) })
		}
	}
	token := "ct=" + w.token(t, ticket.Control)
	for _, query := range []string{token + "&" + url.QueryEscape(page), url.QueryEscape(page) + "&" + token, url.QueryEscape(page) + "&" + strings.Replace(token, "c", "%63", 1)} {
		if opened := decodeAnswer[map[string]string](t, send(t, "PUT", w.path("/json/new?"+query), "")); opened["url"] != page {
			t.Errorf("with the token in the query, the tab has URL %q", opened["url"])
		}
	}
	if got := do(t, "GET", w.path("/json/new?about:blank"), w.controlHeader(t)...); got.status != 405 || got.header.Get("Allow") != "PUT, POST" {
		t.Errorf("GET: %d %v", got.status, got.header)
	}
	for _, path := range []string{"/json/activate/ABC", "/json/close/ABC", "/json/close/a%2fb", "/json/activate/.."} {
		if got := do(t, "GET", w.path(path), w.controlHeader(t)...); got.status != 404 || !strings.Contains(got.body, "RESOURCE_NOT_FOUND") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := do(t, "GET", w.path("/json/other"), w.controlHeader(t)...); got.status != 404 {
		t.Errorf("another command: got %d, want 404", got.status)
	}
}

// TestFrontEnd_OpensFromDiscovery opens the front end URL of /json unchanged.
func TestFrontEnd_OpensFromDiscovery(t *testing.T) {
	w, _, person := newRealTestServer(t)
	target := decodeAnswer[[]map[string]string](t, do(t, "GET", w.path("/json"), w.controlHeader(t)...))[0]
	p := person(target["devtoolsFrontendUrl"])
	p.WaitFor("the inspector shows the page's elements", deepText+`.includes('greeting-of-the-page')`, "true")
	if address := p.Eval("location.href"); strings.Contains(address, "ct=") {
		t.Errorf("got URL %s", address)
	}
}

// TestFrontEnd_WorksBehindLoadBalancer runs the worker behind TLS and below a path
// prefix.
func TestFrontEnd_WorksBehindLoadBalancer(t *testing.T) {
	real, b, person := newRealTestServer(t)
	var behind *testServer
	balancer := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: behind.address}) },
		ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(balancer.Close)
	behind = newTestServer(t, balancer.URL+"/w/worker-1")
	behind.add(b, true)
	targets := decodeAnswer[[]map[string]string](t, do(t, "GET", behind.path("/json"), behind.controlHeader(t)...))
	p := person("about:blank")
	p.Call("Security.setIgnoreCertificateErrors", map[string]any{"ignore": true}, nil)
	p.Navigate(targets[0]["devtoolsFrontendUrl"])
	p.WaitFor("the inspector shows the page's elements", deepText+`.includes('greeting-of-the-page')`, "true")
	if address := p.Eval("location.href"); !strings.HasPrefix(address, balancer.URL+"/w/worker-1/browsers/"+launch+"/devtools/inspector.html?wss=") {
		t.Errorf("got URL %s", address)
	}
	if used, unused := behind.OpenTasks(), real.OpenTasks(); used == 0 || unused != 0 {
		t.Errorf("%d connections are open, and %d to the other worker", used, unused)
	}
}

// clients are scripts that run in scripts/, where their packages are installed.
var clients = map[string]string{
	"puppeteer": `import puppeteer from 'puppeteer-core';
		const version = await (await fetch(base + '/json/version', { headers: { 'X-Svc-Token': token } })).json();
		const browser = await puppeteer.connect({ browserWSEndpoint: version.webSocketDebuggerUrl, defaultViewport: null });
		const page = await browser.newPage();
		await page.goto(url);
		console.log(await page.title());
		await browser.disconnect();`,
	"playwright, with the token in the URL": `import { chromium } from 'playwright-core';
		const browser = await chromium.connectOverCDP(base + '/?ct=' + token);
		const page = await browser.contexts()[0].newPage();
		await page.goto(url);
		console.log(await page.title());
		await browser.close();`,
	"playwright": `import { chromium } from 'playwright-core';
		const browser = await chromium.connectOverCDP(base, { headers: { 'X-Svc-Token': token } });
		const page = await browser.contexts()[0].newPage();
		await page.goto(url);
		console.log(await page.title());
		await browser.close();`,
}

func TestDiscovery_ClientsConnectByHTTPAddress(t *testing.T) {
	w, _, _ := newRealTestServer(t)
	page := newSite(t) + "/red"
	for name, program := range clients {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			node := exec.CommandContext(ctx, "node", "--input-type=module", "-")
			node.Dir = "../../../../scripts"
			first, rest, _ := strings.Cut(program, "\n")
			node.Stdin = strings.NewReader(first + "\nconst [base, token, url] = " +
				string(encode(t, w.path(""), w.token(t, ticket.Control), page)) + ";\n" + rest)
			var complaint bytes.Buffer
			node.Stderr = &complaint
			out, err := node.Output()
			if err != nil || strings.TrimSpace(string(out)) != "Red" {
				t.Errorf("%s (its packages come from scripts/npm-install): %v %s", out, err, complaint.String())
			}
		})
	}
}

func encode(t *testing.T, values ...string) []byte {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
