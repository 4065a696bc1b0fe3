package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// debugTarget is the entry of a tab in /json.
type debugTarget struct {
	ID, Type, URL                             string
	WebSocketDebuggerURL, DevtoolsFrontendURL string
}

// testDiscovery requests all paths under /json, with and without a trailing slash,
// and connects to the URLs of the responses.
func (b *edgeTest) testDiscovery(t *testing.T) {
	for i, s := range b.sessions {
		token := controlToken(t, *s.WebSocketDebuggerUrl)
		for _, d := range []discovery{
			{edgeTest: b, worker: i, header: "X-Svc-Token", value: token, token: token},
			{edgeTest: b, worker: i, header: "X-API-Key", value: b.worker.key, slash: "/", token: token},
		} {
			t.Run(fmt.Sprintf("%s, with %s, slash %q", b.workerID(i), d.header, d.slash), d.test)
		}
	}
}

// discovery is one way to request the paths under /json.
type discovery struct {
	*edgeTest
	worker        int // the index of the worker and its session
	header, value string
	slash         string // appended to each path
	token         string // the launch's token, in the URLs of sockets
}

// path returns a path below the browser's public URL.
func (d discovery) path(rest string) string {
	return "/w/" + d.workerID(d.worker) + "/browsers/" + d.sessions[d.worker].LaunchId.String() + "/" + rest
}

func (d discovery) test(t *testing.T) {
	var version struct{ Browser, WebSocketDebuggerURL string }
	d.get(t, "json/version"+d.slash, &version)
	session, _, _ := strings.Cut(*d.sessions[d.worker].WebSocketDebuggerUrl, "?")
	if !strings.HasPrefix(version.Browser, "Chrome/") || !d.hasPrefix(version.WebSocketDebuggerURL, "wss:", session[strings.Index(session, "devtools/"):]) {
		t.Errorf("the browser is %s, at %s", version.Browser, withoutQuery(version.WebSocketDebuggerURL))
	}
	var target debugTarget
	d.fetch(t, http.MethodPut, "json/new"+d.slash+"?about:blank", &target)
	if target.ID == "" || target.URL != "about:blank" {
		t.Fatalf("the new tab is %q, at %q", target.ID, target.URL)
	}
	for _, list := range []string{"json", "json/list"} {
		found := d.find(t, list+d.slash, target.ID)
		if found == nil || !d.hasPrefix(found.WebSocketDebuggerURL, "wss:", "devtools/page/"+target.ID) || !d.hasPrefix(found.DevtoolsFrontendURL, "https:", "devtools/inspector.html") {
			t.Fatalf("%s lists the new tab as %+v", list, found)
		}
		var result struct {
			Result struct{ Result struct{ Value int } }
		}
		d.exchange(t, found.WebSocketDebuggerURL, nil, `{"id":1,"method":"Runtime.evaluate","params":{"expression":"6 * 7"}}`, &result)
		if result.Result.Result.Value != 42 {
			t.Errorf("the tab at its URL in %s returned %+v", list, result)
		}
	}
	d.get(t, "json/activate/"+target.ID+d.slash, nil)
	d.get(t, "json/close/"+target.ID+d.slash, nil)
	eventually(t, 5*time.Second, "the tab is closed", func() error {
		if d.find(t, "json/list"+d.slash, target.ID) != nil {
			return errors.New("the tab is still listed")
		}
		return nil
	})
}

// hasPrefix reports whether url is the browser's public URL of the path with a
// control token. For a socket, it must be the launch's token.
func (d discovery) hasPrefix(address, scheme, rest string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	token := parsed.Query().Get("ct")
	return withoutQuery(address) == scheme+strings.TrimPrefix(d.url, "https:")+d.path(rest) && token != "" && (scheme != "wss:" || token == d.token)
}

// find returns the entry of a tab in a list, or nil.
func (d discovery) find(t *testing.T, list, id string) *debugTarget {
	t.Helper()
	var targets []debugTarget
	d.get(t, list, &targets)
	for _, target := range targets {
		if target.ID == id {
			return &target
		}
	}
	return nil
}

func (d discovery) get(t *testing.T, rest string, into any) {
	t.Helper()
	d.fetch(t, http.MethodGet, rest, into)
}

func (d discovery) fetch(t *testing.T, method, rest string, into any) {
	t.Helper()
	status, text := d.send(t, method, d.path(rest), "", d.header, d.value)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, rest, status, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, rest, err, text)
		}
	}
}

// exchange opens a socket, sends messages with the ids 1, 2, ... and closes the
// socket. Each message is followed by the variable for its response.
func (b *edgeTest) exchange(t *testing.T, endpoint string, header http.Header, messages ...any) {
	t.Helper()
	input := struct {
		Endpoint string            `json:"endpoint"`
		Header   http.Header       `json:"header"`
		Key      bool              `json:"key"`
		Messages []json.RawMessage `json:"messages"`
	}{Endpoint: endpoint, Header: header, Key: true}
	for i := 0; i < len(messages); i += 2 {
		input.Messages = append(input.Messages, json.RawMessage(messages[i].(string)))
	}
	var answers []json.RawMessage
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	if err := runClient(b.trustEdge(exec.CommandContext(ctx, b.goClient, "socket")), input, &answers); err != nil || len(answers) != len(input.Messages) {
		t.Fatalf("got %d responses: %v", len(answers), err)
	}
	for i, answer := range answers {
		if err := json.Unmarshal(answer, messages[2*i+1]); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
	}
}

// testLaunchSocket launches with /launch at the edge's URL and at the URLs of the
// workers.
func (b *edgeTest) testLaunchSocket(t *testing.T) {
	profile := b.request.ProfileId.String()
	query := "/launch?headless=true&profileId=" + profile
	env := fmt.Sprintf(`{"SVC_KEY":%q,"profileId":%q,"browser":{"headless":true}}`, b.key, profile)
	launched := make(chan workerapi.BrowserSession, 3)
	t.Run("credential", func(t *testing.T) {
		for _, c := range []struct {
			name, path string
			header     http.Header
			worker     string // the worker that must launch; empty for any
		}{
			{"X-API-Key", query, http.Header{"X-Api-Key": {b.key}}, ""},
			{"Bearer", "/w/worker-2" + query, http.Header{"Authorization": {"Bearer " + b.key}}, "worker-2"},
			{"env", "/launch?env=" + url.QueryEscape(env), nil, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				launched <- b.launchBySocket(t, c.path, c.header, c.worker)
			})
		}
	})
	close(launched)
	b.waitForSlots(t, 2, 10*time.Second)
	for session := range launched {
		b.assertFeed(t, session, sharedapi.SessionStatusKilled, sharedapi.EndReasonClientClose)
	}
}

// launchBySocket launches a browser over a socket, sends it a command and closes the
// socket.
func (b *edgeTest) launchBySocket(t *testing.T, path string, header http.Header, worker string) workerapi.BrowserSession {
	t.Helper()
	var info struct {
		Result struct {
			SessionID, LaunchID, ProfileID uuid.UUID
			BrowserVersion                 int32
			ControlToken                   string
		}
	}
	var urls struct {
		Result struct{ WebSocketDebuggerURL, ViewURL string }
	}
	var version struct{ Result struct{ Product string } }
	b.exchange(t, "wss:"+strings.TrimPrefix(b.url, "https:")+path, header,
		`{"id":1,"method":"Svc.getSessionInfo"}`, &info, `{"id":2,"method":"Svc.getBrowserURLs"}`, &urls, `{"id":3,"method":"Browser.getVersion"}`, &version)
	launched := info.Result
	if launched.ControlToken == "" || !strings.Contains(version.Result.Product, fmt.Sprintf("%d.", launched.BrowserVersion)) {
		t.Fatalf("session %s with Chromium %d reports %q", launched.SessionID, launched.BrowserVersion, version.Result.Product)
	}
	rest, ok := strings.CutPrefix(withoutQuery(urls.Result.ViewURL), b.url+"/w/")
	by, rest, _ := strings.Cut(rest, "/")
	base := "/w/" + by + "/browsers/" + launched.LaunchID.String()
	if !ok || rest != "browsers/"+launched.LaunchID.String()+"/view" || worker != "" && by != worker ||
		!strings.HasPrefix(urls.Result.WebSocketDebuggerURL, "wss:"+strings.TrimPrefix(b.url, "https:")+base+"/devtools/browser/") {
		t.Errorf("the URLs are %s and %s", withoutQuery(urls.Result.ViewURL), withoutQuery(urls.Result.WebSocketDebuggerURL))
	}
	eventually(t, 10*time.Second, "the browser ends with its socket", func() error {
		status, text := b.send(t, http.MethodGet, base+"/json/version", "", "X-Svc-Token", launched.ControlToken)
		if status != http.StatusNotFound || string(text) != "unknown browser" {
			return fmt.Errorf("the session returned %d %s", status, text)
		}
		return nil
	})
	return workerapi.BrowserSession{
		Id: launched.SessionID, LaunchId: launched.LaunchID, ProfileId: launched.ProfileID, BrowserVersion: launched.BrowserVersion,
	}
}

// withoutQuery removes the query, which contains the token, so that the URL can be
// printed.
func withoutQuery(address string) string {
	before, _, _ := strings.Cut(address, "?")
	return before
}
