package app_test

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// mcpClient is a session of the SDK's client. It fails the test if a result contains a
// secret.
type mcpClient struct {
	*sdk.ClientSession
	worker *testWorker
}

// keyTransport sends a key with every request.
type keyTransport struct {
	key  string
	next http.RoundTripper
}

func (k keyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return k.next.RoundTrip(r)
}

func (r *testWorker) dialMCP(ctx context.Context, key string) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	return client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: r.url + "/mcp", HTTPClient: &http.Client{Transport: keyTransport{key, http.DefaultTransport}},
	}, nil)
}

func (r *testWorker) openMCP(t *testing.T, key string) *mcpClient {
	t.Helper()
	session, err := r.dialMCP(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return &mcpClient{session, r}
}

// call calls a tool and returns the text of its result.
func (c *mcpClient) call(t *testing.T, tool string, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	answer, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	for _, content := range answer.Content {
		if part, ok := content.(*sdk.TextContent); ok {
			text += part.Text
		}
	}
	t.Logf("%s %v: %s", tool, arguments, text)
	for _, secret := range append(c.worker.secrets, "ct=", "eyJ", "/devtools/") {
		if strings.Contains(text, secret) {
			t.Errorf("%s: the result contains %q", tool, secret)
		}
	}
	return text, answer.IsError
}

// do calls a tool that must succeed.
func (c *mcpClient) do(t *testing.T, tool string, arguments map[string]any, wants ...string) string {
	t.Helper()
	text, failed := c.call(t, tool, arguments)
	if failed {
		t.Fatalf("%s %v failed: %s", tool, arguments, text)
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Fatalf("%s %v: got %s\nwant %s", tool, arguments, text, want)
		}
	}
	return text
}

// refuse calls a tool that must fail.
func (c *mcpClient) refuse(t *testing.T, tool string, arguments map[string]any, want string) {
	t.Helper()
	if text, failed := c.call(t, tool, arguments); !failed || !strings.Contains(text, want) {
		t.Fatalf("%s %v: got %s\nwant an error with %s", tool, arguments, text, want)
	}
}

// ref returns the reference of the line of a new snapshot that contains the text.
func (c *mcpClient) ref(t *testing.T, label string) string {
	t.Helper()
	snapshot := c.do(t, "snapshot", nil)
	label = regexp.QuoteMeta(label)
	found := regexp.MustCompile(label + `.*\[ref=(e\d+)\]|\[ref=(e\d+)\]: ` + label).FindStringSubmatch(snapshot)
	if found == nil {
		t.Fatalf("the snapshot has no %s:\n%s", label, snapshot)
	}
	return found[1] + found[2]
}

type args = map[string]any

func TestMCP_SessionEndsBrowsers(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	c := r.openMCP(t, cloudtest.Key)
	c.do(t, "launch_browser", args{"browserVersion": r.version})
	c.do(t, "launch_browser", args{"keepAlive": true}, "keeps running")
	r.cloud.Await(t, 0, 2)
	c.do(t, "navigate", args{"url": "about:blank", "browser": "b2"}, "browser b2")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r.cloud.Await(t, 0, 1)
}

func TestMCP_ReportsBrowserEndedElsewhere(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	c := r.openMCP(t, workerKey)
	c.do(t, "launch_browser", nil)
	c.do(t, "navigate", args{"url": "about:blank"})
	status, text := r.call(t.Context(), t, "GET", "/sessions?status=running", "", "X-API-Key", workerKey)
	running := decode[workerapi.BrowserSessionListResponse](t, text)
	if status != 200 || len(running.Data.Items) != 1 {
		t.Fatalf("list: %d %s", status, text)
	}
	r.session(t, "DELETE", "/sessions/"+running.Data.Items[0].Id.String(), "")
	c.refuse(t, "snapshot", nil, "b1 has ended")
	c.refuse(t, "snapshot", nil, "launch_browser")
}

func TestMCP_RecoversCrashedPage(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	c := r.openMCP(t, workerKey)
	c.do(t, "launch_browser", nil)
	c.do(t, "snapshot", nil)
	_, text := r.call(t.Context(), t, "GET", "/sessions?status=running", "", "X-API-Key", workerKey)
	running := decode[workerapi.BrowserSessionListResponse](t, text)
	socket, err := ws.Dial(t.Context(), *running.Data.Items[0].WebSocketDebuggerUrl, nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.OverWebSocket(socket)
	defer func() { _ = conn.Close() }()
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	var attached struct{ SessionID string }
	if err := conn.Call(t.Context(), "", "Target.getTargets", nil, &targets); err != nil {
		t.Fatal(err)
	}
	page := slices.IndexFunc(targets.TargetInfos, func(target struct{ TargetID, Type string }) bool { return target.Type == "page" })
	attach := map[string]any{"targetId": targets.TargetInfos[page].TargetID, "flatten": true}
	if err := conn.Call(t.Context(), "", "Target.attachToTarget", attach, &attached); err != nil {
		t.Fatal(err)
	}
	crash, err := conn.Send(t.Context(), attached.SessionID, "Page.crash", nil)
	if err != nil {
		t.Fatal(err)
	}
	crash.Discard()
	c.refuse(t, "wait_for", args{"text": "never shown", "seconds": 2}, "did not become visible") // meanwhile it crashes
	c.refuse(t, "snapshot", nil, "has crashed")
	c.do(t, "navigate", args{"url": newMCPSite(t).URL + "/other"}, "Other")
	c.do(t, "snapshot", nil, "An other page")
}

func TestMCP_RefusedLaunchSaysWhatToDo(t *testing.T) {
	fake := cloudtest.New(t)
	fake.Limit(1)
	r := startTestWorker(t, fake)
	c := r.openMCP(t, workerKey)
	c.do(t, "launch_browser", nil)
	c.refuse(t, "launch_browser", nil, "end_browser")
	c.do(t, "end_browser", nil)
	c.do(t, "launch_browser", nil, "browser b2")
}

func TestMCP_EndsWithWorker(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	c := r.openMCP(t, workerKey) // its stream stays open
	c.do(t, "launch_browser", args{"keepAlive": true})
	c.do(t, "navigate", args{"url": "about:blank"})
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	r.cloud.Await(t, 0, 0)
	r.assertNoLeftovers(t)
}

func TestMCP_ChargesCallersKey(t *testing.T) {
	const key = "svc_callerscallerscallerscallerscalle"
	fake := cloudtest.New(t)
	fake.AddKey(key)
	r := startTestWorker(t, fake)
	r.secrets = append(r.secrets, key)
	c := r.openMCP(t, key)
	c.do(t, "launch_browser", nil)
	calls := fake.Calls(cloudtest.Authorize)
	if len(calls) == 0 || calls[len(calls)-1].Key != key {
		t.Errorf("the launch was not charged to the caller's key: %v", calls)
	}
}

const mcpInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestMCP_RefusesRequests(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake)
	const initialize = mcpInitialize
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	c := r.openMCP(t, workerKey)
	accept := []string{"Accept", "application/json, text/event-stream"}
	for name, test := range map[string]struct {
		method, body string
		headers      []string
		status       int
		want         string
	}{
		"no key":           {"POST", initialize, nil, 401, "key is required"},
		"unknown key":      {"POST", initialize, []string{"X-API-Key", "svc_unknown"}, 401, "key"},
		"other origin":     {"POST", initialize, []string{"X-API-Key", workerKey, "Origin", "https://evil.example"}, 403, "origin"},
		"other key":        {"POST", list, []string{"X-API-Key", cloudtest.Key, "Mcp-Session-Id", c.ID()}, 403, "another key"},
		"other key's end":  {"DELETE", "", []string{"X-API-Key", cloudtest.Key, "Mcp-Session-Id", c.ID()}, 403, "another key"},
		"wrong key's end":  {"DELETE", "", []string{"X-API-Key", "svc_unknown", "Mcp-Session-Id", c.ID()}, 401, "key"},
		"unknown session":  {"POST", list, []string{"X-API-Key", workerKey, "Mcp-Session-Id", "x"}, 404, "has ended"},
		"unknown end":      {"DELETE", "", []string{"X-API-Key", workerKey, "Mcp-Session-Id", "x"}, 404, "has ended"},
		"stream, no key":   {"GET", "", nil, 401, "key is required"},
		"other key's":      {"GET", "", []string{"X-API-Key", cloudtest.Key, "Mcp-Session-Id", c.ID()}, 403, "another key"},
		"stream of none":   {"GET", "", []string{"X-API-Key", workerKey}, 400, "Mcp-Session-Id"},
		"unknown stream":   {"GET", "", []string{"X-API-Key", workerKey, "Mcp-Session-Id", "x"}, 404, "has ended"},
		"no session":       {"DELETE", "", []string{"X-API-Key", workerKey}, 400, "Mcp-Session-Id"},
		"malformed":        {"POST", `{"jsonrpc":`, []string{"X-API-Key", workerKey}, 400, "not a valid MCP request"},
		"unsupported type": {"POST", initialize, []string{"X-API-Key", workerKey, "Content-Type", "text/plain"}, 415, "application/json"},
		"too large":        {"POST", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, []string{"X-API-Key", workerKey}, 413, "larger"},
		"key in the URL":   {"POST", initialize, nil, 401, "key is required"},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/mcp"
			if name == "key in the URL" {
				path += "?token=" + workerKey
			}
			status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, test.method, path, test.body, append(accept, test.headers...)...)
			if status != test.status || !strings.Contains(string(text), test.want) || !strings.Contains(string(text), `"success":false`) {
				t.Errorf("got %d %s, want %d with %q", status, text, test.status, test.want)
			}
		})
	}
	c.do(t, "list_browsers", nil)
	fake.Down(true)
	if status, text := r.call(t.Context(), t, "POST", "/mcp", initialize, append(accept, "X-API-Key", "svc_unverified")...); status != 503 {
		t.Errorf("a key that cannot be verified: got %d %s", status, text)
	}
	fake.Down(false)
}

// TestMCP_AnswersMessages checks the answers of a session against the document.
func TestMCP_AnswersMessages(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	request := func(method, body string, status int, headers ...string) http.Header {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sent, err := http.NewRequestWithContext(ctx, method, r.url+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		sent.Header = http.Header{"X-Api-Key": {workerKey}, "Accept": {"application/json, text/event-stream"}}
		if body != "" {
			sent.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(headers); i += 2 {
			sent.Header.Set(headers[i], headers[i+1])
		}
		answer, err := r.client.Do(sent)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != status {
			t.Fatalf("%s %s: got %d, want %d", method, body, answer.StatusCode, status)
		}
		return answer.Header
	}
	id := request("POST", mcpInitialize, 200).Get("Mcp-Session-Id")
	request("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, "Mcp-Session-Id", id)
	request("POST", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, 200, "Mcp-Session-Id", id)
	held, release := context.WithCancel(t.Context())
	defer release()
	stream, err := http.NewRequestWithContext(held, http.MethodGet, r.url+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream.Header = http.Header{"X-Api-Key": {workerKey}, "Accept": {"text/event-stream"}, "Mcp-Session-Id": {id}}
	answer, err := r.client.Do(stream)
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("stream: %v %v", answer, err)
	}
	defer answer.Body.Close()
	request("GET", "", 409, "Mcp-Session-Id", id)
	request("DELETE", "", 204, "Mcp-Session-Id", id)
	request("POST", `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, 404, "Mcp-Session-Id", id)
}
