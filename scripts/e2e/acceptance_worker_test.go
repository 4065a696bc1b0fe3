package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/ws"
)

// launchSocket sends a request to /launch with this env that is refused before the
// upgrade.
func (a *acceptance) launchSocket(t *testing.T, env string) response {
	t.Helper()
	return a.anonymous.with("Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==").
		get(t, "/launch?env="+url.QueryEscape(env))
}

// evaluateCDP sends one CDP command on a new socket and returns the value at a path
// of its result.
func evaluateCDP(t *testing.T, address string, header http.Header, method, params, path string) string {
	t.Helper()
	conn, err := ws.Dial(t.Context(), address, header, ws.Options{})
	if err != nil {
		t.Fatalf("%s: %v", withoutQuery(address), err)
	}
	defer conn.CloseNow()
	return callCDP(t, conn, method, params).text("result." + path)
}

// callCDP sends one CDP command and returns its response.
func callCDP(t *testing.T, conn *ws.Conn, method, params string) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := exchangeCDP(ctx, conn, method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return answer
}

// exchangeCDP is callCDP for goroutines.
func exchangeCDP(ctx context.Context, conn *ws.Conn, method, params string) (response, error) {
	if err := conn.Write(ctx, ws.Text, fmt.Appendf(nil, `{"id":1,"method":%q,"params":%s}`, method, params)); err != nil {
		return response{}, err
	}
	for {
		_, message, err := conn.Read(ctx)
		if err != nil {
			return response{}, err
		}
		answer := response{request: method, body: string(message)}
		if err := json.Unmarshal(message, &answer.json); err != nil || answer.number("id") == 1 {
			return answer, err
		}
	}
}

// setCookie returns the Cookie header for the cookie that a response sets.
func setCookie(t *testing.T, r response) string {
	t.Helper()
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	if cookie == "" {
		t.Fatalf("%s set no cookie", r.request)
	}
	return cookie
}

func (a *acceptance) assertOpensOnce(t *testing.T, address string) {
	t.Helper()
	first := a.anonymous.get(t, address).requireStatus(t, 303)
	cookie := setCookie(t, first)
	if again := a.anonymous.get(t, address).requireStatus(t, 404); strings.TrimSpace(again.body) != "unknown browser" {
		t.Errorf("the second use returned %s", again.body)
	}
	clean, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	clean, err = clean.Parse(first.header.Get("Location"))
	if err != nil || clean.RawQuery != "" {
		t.Fatalf("the page redirects to %s (%v)", clean, err)
	}
	a.anonymous.with("Cookie", cookie).get(t, clean.String()).requireStatus(t, 200)
}

func (a *acceptance) pageTokens(t *testing.T) {
	launched := a.launch(t, a.launchRequest())
	a.assertOpensOnce(t, launched.text("data.viewUrl"))
	ticket := a.worker.post(t, "/browsers/"+launched.text("data.launchId")+"/view-ticket", "").requireStatus(t, 200)
	a.assertOpensOnce(t, ticket.text("data.viewUrl"))
	a.assertOpensOnce(t, ticket.text("data.controlUrl"))
	for range 3 {
		if product := evaluateCDP(t, launched.text("data.webSocketDebuggerUrl"), nil, "Browser.getVersion", "{}", "product"); !strings.Contains(product, strconv.Itoa(a.version)) {
			t.Errorf("the browser is %q", product)
		}
	}
}

func (a *acceptance) refusedCallerKey(t *testing.T) {
	a.launchSocket(t, fmt.Sprintf(`{"SVC_KEY":"svc_%s","profileId":%q}`, strings.Repeat("a", 32), a.profile)).requireError(t, 401, "AUTHENTICATION_ERROR")
	a.launchSocket(t, fmt.Sprintf(`{"profileId":%q}`, a.profile)).requireError(t, 401, "AUTHENTICATION_ERROR")
	a.anonymous.post(t, "/sessions/profile", a.launchRequest()).requireError(t, 401, "AUTHENTICATION_ERROR")
}

func (a *acceptance) controlToken(t *testing.T) {
	launched := a.launch(t, a.launchRequest())
	socket, path := launched.text("data.webSocketDebuggerUrl"), "/sessions/"+launched.text("data.id")
	token := controlToken(t, socket)
	for _, read := range []response{launched, a.worker.get(t, path), a.worker.get(t, path)} {
		for _, field := range []string{"webSocketDebuggerUrl", "devtoolsFrontendUrl", "viewUrl"} {
			if address := read.text("data." + field); address != "" && controlToken(t, address) != token {
				t.Errorf("%s: %s has a different token", read.request, field)
			}
		}
	}
	a.assertOpensOnce(t, launched.text("data.viewUrl"))
	read := a.worker.get(t, path).requireStatus(t, 200)
	if controlToken(t, read.text("data.webSocketDebuggerUrl")) != token {
		t.Error("the socket URL has a different token after a page was opened")
	}
	fresh := read.text("data.viewUrl")
	if controlToken(t, fresh) == token {
		t.Error("the page URL has a token that was already used")
	}
	a.assertOpensOnce(t, fresh)
	ticket := a.worker.post(t, "/browsers/"+launched.text("data.launchId")+"/view-ticket", "{}").requireStatus(t, 200)
	if control := ticket.text("data.controlToken"); control == "" || control == token {
		t.Errorf("view-ticket created no new token: %s", ticket.body)
	}
	a.assertSocketReturnsSameToken(t)
}

// assertSocketReturnsSameToken launches over /launch and compares the tokens that the
// socket and the REST API return.
func (a *acceptance) assertSocketReturnsSameToken(t *testing.T) {
	t.Helper()
	conn, err := ws.Dial(t.Context(), a.anonymous.base+"/launch?profileId="+a.profile, http.Header{"X-Api-Key": {a.demo.organizationKey}}, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	info := callCDP(t, conn, "Svc.getSessionInfo", "{}")
	token := info.text("result.controlToken")
	read := a.worker.get(t, "/sessions/"+info.text("result.sessionId")).requireStatus(t, 200)
	for _, address := range []string{
		callCDP(t, conn, "Svc.getBrowserURLs", "{}").text("result.webSocketDebuggerUrl"), read.text("data.webSocketDebuggerUrl"),
		callCDP(t, conn, "Svc.getBrowserURLs", "{}").text("result.viewUrl"), read.text("data.viewUrl"),
	} {
		if controlToken(t, address) != token {
			t.Errorf("%s has a different token than Svc.getSessionInfo", withoutQuery(address))
		}
	}
}

func (a *acceptance) fleetLive(t *testing.T) {
	live := a.worker.get(t, "/fleet/live").requireStatus(t, 200)
	live.requireValue(t, "data.isAvailable", "true")
	live.requireValue(t, "data.reason", "null")
	a.worker.get(t, "/fleet/status").requireStatus(t, 200).requireValue(t, "data.license.state", `"ok"`)
	a.anonymous.get(t, "/health").requireStatus(t, 200).requireValue(t, "data.license", `"ok"`)
}

func (a *acceptance) commonRequests(t *testing.T) {
	created := a.owner.post(t, "/v1/profiles", fmt.Sprintf(`{"name":"x","browserVersion":%d,"notes":null,"tags":null,"persist":null}`, a.version)).requireStatus(t, 201)
	a.owner.do(t, "DELETE", "/v1/profiles/"+created.text("data.id"), "")
	a.launch(t, fmt.Sprintf(`{"profileId":%q,"spec":null,"browser":{"args":null,"timeoutMs":null},"proxyOverride":null}`, a.profile))
	a.owner.post(t, "/v1/organizations/"+a.org+"/activate", "{}").requireStatus(t, 200)
	a.worker.post(t, "/fleet/drain", "{}").requireStatus(t, 200)
	a.worker.do(t, "DELETE", "/fleet/drain", "").requireStatus(t, 200).requireValue(t, "data.draining", "false")
	for _, head := range []struct {
		by   apiClient
		path string
	}{
		{a.cloud, "/v1/plans"}, {a.cloud, "/livez"}, {a.cloud, "/openapi.json"}, {a.owner, "/v1/profiles"}, {a.owner, "/v1/profiles/stats"},
		{a.fleet, "/v1/license/sessions"}, {a.anonymous, "/health"}, {a.worker, "/sessions"}, {a.worker, "/profiles"},
	} {
		get, answer := head.by.get(t, head.path).requireStatus(t, 200), head.by.do(t, "HEAD", head.path, "").requireStatus(t, 200)
		if answer.body != "" || answer.header.Get("Content-Type") != get.header.Get("Content-Type") {
			t.Errorf("%s: %q %v", answer.request, answer.body, answer.header)
		}
	}
	plans := a.cloud.get(t, "/v1/plans?page=2&limit=2").requireStatus(t, 200)
	plans.requireValue(t, "data.pagination.page", "2")
	plans.requireValue(t, "data.pagination.total", "5")
	if items, _ := plans.value("data.items").([]any); len(items) != 2 {
		t.Errorf("the page has %d plans", len(items))
	}
	for _, port := range []string{a.demo.cloudPort, a.demo.workerPort} {
		sendMalformed(t, port)
	}
}

// sendMalformed sends a request that Go's client cannot send.
func sendMalformed(t *testing.T, port string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "localhost:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /v1/pl%zzans HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	_, body, _ := strings.Cut(string(text), "\r\n\r\n")
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
		t.Fatalf("the response is %s (%v)", text, err)
	}
	r := response{request: "GET /v1/pl%zzans", status: 400, body: body}
	if err := json.Unmarshal([]byte(body), &r.json); err != nil {
		t.Fatalf("%s returned %s: %v", r.request, body, err)
	}
	r.requireError(t, 400, "VALIDATION_ERROR", "request")
}

func (a *acceptance) bundles(t *testing.T) {
	listed := a.worker.get(t, "/profiles?os=windows").requireStatus(t, 200)
	filename := listed.text("data.items.0.filename")
	launched := a.launch(t, fmt.Sprintf(`{"spec":{"filename":%q}}`, filename))
	launched.requireValue(t, "data.bundle.filename", strconv.Quote(filename))
	launched.requireValue(t, "data.bundle.name", strconv.Quote(listed.text("data.items.0.name")))
	a.worker.get(t, "/sessions/"+launched.text("data.id")).requireStatus(t, 200).requireValue(t, "data.bundle.filename", strconv.Quote(filename))
	a.worker.post(t, "/sessions/profile", `{"spec":{"filename":"none.json"}}`).requireError(t, 400, "VALIDATION_ERROR", "spec.filename INVALID_ENUM_VALUE")
	a.worker.post(t, "/sessions/profile", fmt.Sprintf(`{"spec":{"filename":%q,"os":"android"}}`, filename)).
		requireError(t, 400, "VALIDATION_ERROR", "spec.os CUSTOM")
}
