package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

const signInForm = `<!doctype html><title>Sign in</title><form method=post action=/welcome>
<label>User <input name=user></label><label>Password <input name=password type=password></label><label>Code <input name=code></label>
<textarea aria-label="Note">my note</textarea><button>Sign in</button></form>`

// signInSite is a site with a form. Its values are the planted secrets.
type signInSite struct {
	*httptest.Server
	values map[cloudapi.SecretField]string
}

// newSignInSite serves the site, and adds the secret "shop" to the cloud. Its password and
// code must not be in a log or a result.
func newSignInSite(t *testing.T, r *testWorker) *signInSite {
	t.Helper()
	s := &signInSite{values: map[cloudapi.SecretField]string{"username": "robot-" + uuid.NewString(), "password": "pw-" + uuid.NewString(), "totp": "492817"}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/welcome" {
			if r.PostFormValue("user") == s.values["username"] && r.PostFormValue("password") == s.values["password"] && r.PostFormValue("code") == s.values["totp"] {
				_, _ = io.WriteString(w, "<title>Welcome</title><h1>Signed in</h1>")
			}
			return
		}
		_, _ = io.WriteString(w, signInForm)
	}))
	t.Cleanup(s.Close)
	for _, value := range s.values {
		r.secrets = append(r.secrets, value)
	}
	r.cloud.AddSecret("shop", cloudtest.Secret{ID: uuid.Must(uuid.NewV7()), Origin: s.URL, Values: s.values})
	return s
}

// connectCDP connects to a CDP socket.
func connectCDP(t *testing.T, address string, header http.Header) *cdp.Conn {
	t.Helper()
	socket, err := ws.Dial(t.Context(), address, header, ws.Options{ReadLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.OverWebSocket(socket)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// openPage opens a page and returns its target and a session of it.
func openPage(t *testing.T, conn *cdp.Conn, address string) (target, session string) {
	t.Helper()
	var opened struct{ TargetID, SessionID string }
	for _, call := range []struct {
		method string
		params func() map[string]any
	}{
		{"Target.createTarget", func() map[string]any { return map[string]any{"url": address} }},
		{"Target.attachToTarget", func() map[string]any { return map[string]any{"targetId": opened.TargetID, "flatten": true} }},
	} {
		if err := conn.Call(t.Context(), "", call.method, call.params(), &opened); err != nil {
			t.Fatal(err)
		}
	}
	return opened.TargetID, opened.SessionID
}

// evaluate returns the value of an expression in a page.
func evaluate(t *testing.T, conn *cdp.Conn, session, expression string) string {
	t.Helper()
	var got struct{ Result struct{ Value any } }
	params := map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}
	if err := conn.Call(t.Context(), session, "Runtime.evaluate", params, &got); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(got.Result.Value)
}

func TestFillSecret_OverCDP(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	site := newSignInSite(t, r)
	s := r.launch(t)
	_, path, _ := strings.Cut(*s.WebSocketDebuggerUrl, "/browsers/"+s.LaunchId.String())
	path, _, _ = strings.Cut(path, "?")
	browser := connectCDP(t, *s.WebSocketDebuggerUrl, nil)
	target, _ := openPage(t, browser, site.URL)
	pageSocket := strings.Replace(*s.WebSocketDebuggerUrl, path, "/devtools/page/"+target, 1)
	for name, conn := range map[string]*cdp.Conn{
		"a browser's connection": browser, "a resumable connection": connectCDP(t, *s.WebSocketDebuggerUrl+"&resume=0&client=a", nil),
		"the debugging port":             connectCDP(t, fmt.Sprintf("ws://127.0.0.1:%d%s", *s.DebugPort, path), nil),
		"the launch socket":              connectCDP(t, "ws"+strings.TrimPrefix(r.url, "http")+"/launch?profileId="+r.cloud.Profile(r.version).String(), http.Header{"X-Api-Key": {cloudtest.Key}}),
		"a page's connection":            connectCDP(t, pageSocket, nil),
		"a page's resumable connection":  connectCDP(t, pageSocket+"&resume=0&client=b", nil),
		"a page's debugging port socket": connectCDP(t, fmt.Sprintf("ws://127.0.0.1:%d/devtools/page/%s", *s.DebugPort, target), nil),
	} {
		t.Run(name, func(t *testing.T) {
			session := ""
			if !strings.HasPrefix(name, "a page's") {
				_, session = openPage(t, conn, site.URL)
			}
			events := conn.Subscribe(100)
			var filled map[string]string
			evaluate(t, conn, session, `new Promise(resolve => { const poll = () => document.readyState === 'complete' && document.forms.length ? resolve() : setTimeout(poll, 5); poll() })`)
			if err := conn.Call(t.Context(), session, "Svc.fillSecret", map[string]any{"secret": "shop", "field": "password", "selector": "[type=password]"}, &filled); err != nil {
				t.Fatal(err)
			}
			if filled["origin"] != site.URL || filled["field"] != "password" || len(filled) != 3 {
				t.Errorf("got %v", filled)
			}
			if got := evaluate(t, conn, session, "document.forms[0].password.value"); got != site.values["password"] {
				t.Errorf("the page has %q", got)
			}
			err := conn.Call(t.Context(), session, "Svc.fillSecret", map[string]any{"secret": "shop", "field": "password", "selector": "[name=user]"}, nil)
			if err == nil || !strings.Contains(err.Error(), "is no password input") {
				t.Errorf("got %v", err)
			}
			for _, params := range []any{nil, map[string]any{"secret": 1}, map[string]any{"secret": "shop", "field": "totp", "selector": "input", "value": "x"}} {
				if err := conn.Call(t.Context(), session, "Svc.fillSecret", params, nil); err == nil || !strings.Contains(err.Error(), "params must be") {
					t.Errorf("%v: got %v", params, err)
				}
			}
			if session != "" {
				if err := conn.Call(t.Context(), "", "Svc.fillSecret", map[string]any{"secret": "shop", "field": "totp", "selector": "input"}, nil); err == nil || !strings.Contains(err.Error(), "session of a page") {
					t.Errorf("on the browser: got %v", err)
				}
				if err := conn.Call(t.Context(), "none", "Svc.fillSecret", nil, nil); err == nil || !strings.Contains(err.Error(), "Session with given id not found") {
					t.Errorf("on an unknown session: got %v", err)
				}
			}
			evaluate(t, conn, session, "document.forms[0].reset()")
			select {
			case e := <-events.Events():
				t.Errorf("the client got %s %s", e.Method, e.Params)
			default:
			}
		})
	}
	for _, call := range r.cloud.Calls() {
		if call.UseSecret != nil && call.Key != cloudtest.Key {
			t.Errorf("the secret was used with the key %.8s", call.Key)
		}
	}
}

// fills sends POST /fill for one launch.
type fills struct{ handovers }

func (f fills) post(t *testing.T, status int, fields map[string]any) []byte {
	t.Helper()
	body := map[string]any{"secret": "shop", "field": "password", "selector": "[type=password]"}
	for name, value := range fields {
		if body[name] = value; value == nil {
			delete(body, name)
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return f.ask(t, "POST", "/fill", string(raw), status)
}

func TestFillSecret_OverREST(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	site := newSignInSite(t, r)
	s := r.launch(t)
	f := fills{r.handovers(s)}
	f.ask(t, "POST", "/navigate", fmt.Sprintf(`{"url":%q}`, site.URL), 200)
	filled := decode[workerapi.FillResponse](t, f.post(t, 200, nil)).Data
	if filled.Origin != site.URL || filled.Field != "password" {
		t.Errorf("got %+v", filled)
	}
	f.post(t, 200, map[string]any{"targetId": filled.TargetId, "secret": filled.SecretId})
	for _, c := range []struct {
		status int
		fields map[string]any
		want   string
	}{
		{400, map[string]any{"selector": nil}, "backendNodeId"}, {400, map[string]any{"backendNodeId": 5}, "backendNodeId"}, {400, map[string]any{"field": "seed"}, "field"},
		{400, map[string]any{"secret": "Shop 1"}, "secret"}, {400, map[string]any{"selector": "###"}, "selector"}, {400, map[string]any{"value": "x"}, "value"},
		{404, map[string]any{"secret": "other"}, "No such secret."}, {404, map[string]any{"targetId": "ABC"}, "no such target"},
		{409, map[string]any{"selector": "#none"}, "matches no element"}, {409, map[string]any{"selector": "textarea"}, "is no input"},
	} {
		if text := f.post(t, c.status, c.fields); !strings.Contains(string(text), c.want) {
			t.Errorf("%v: got %s", c.fields, text)
		}
	}
	f.ask(t, "POST", "/fill", `{}`, 415, "Content-Type", "text/plain")
	f.ask(t, "POST", "/fill", strings.Repeat(" ", 1<<20+1), 413)
	f.ask(t, "POST", "/navigate", fmt.Sprintf(`{"url":%q}`, strings.Replace(site.URL, "127.0.0.1", "localhost", 1)), 200)
	if text := f.post(t, 403, nil); !strings.Contains(string(text), `"field":"origin"`) {
		t.Errorf("got %s", text)
	}
	f.ask(t, "POST", "/navigate", fmt.Sprintf(`{"url":%q}`, site.URL), 200)
	r.cloud.Script(cloudtest.UseSecret, cloudtest.Failure(fault.Conflict, "The session is not running."), cloudtest.Failure(fault.Internal, "Something went wrong."), cloudtest.Failure(fault.Unauthenticated, "No."))
	f.post(t, 409, nil)
	f.post(t, 503, nil)
	f.post(t, 424, nil) // the worker's own key
	r.cloud.Down(true)
	f.post(t, 503, nil)
	r.cloud.Down(false)
}

// TestFillSecret_NavigationWhileTheCloudAnswers navigates to a foreign page between the
// check and the answer of the cloud.
func TestFillSecret_NavigationWhileTheCloudAnswers(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	site := newSignInSite(t, r)
	s := r.launch(t)
	f := fills{r.handovers(s)}
	f.ask(t, "POST", "/navigate", fmt.Sprintf(`{"url":%q}`, site.URL), 200)
	release, answer := context.WithCancel(t.Context())
	called := make(chan struct{})
	r.cloud.Script(cloudtest.UseSecret, func(w http.ResponseWriter, request *http.Request) {
		close(called)
		cloudtest.Until(release)(w, request)
	})
	go func() {
		defer answer()
		select {
		case <-called:
			f.ask(t, "POST", "/navigate", fmt.Sprintf(`{"url":%q}`, strings.Replace(site.URL, "127.0.0.1", "localhost", 1)), 200)
		case <-time.After(20 * time.Second):
		}
	}()
	if text := f.post(t, 409, nil); !strings.Contains(string(text), "nothing was filled") {
		t.Errorf("got %s", text)
	}
	conn := connectCDP(t, *s.WebSocketDebuggerUrl, nil)
	var list struct {
		TargetInfos []struct{ TargetID, Type, URL string }
	}
	if err := conn.Call(t.Context(), "", "Target.getTargets", nil, &list); err != nil {
		t.Fatal(err)
	}
	for _, info := range list.TargetInfos {
		if !strings.Contains(info.URL, "localhost") {
			continue
		}
		var attached struct{ SessionID string }
		if err := conn.Call(t.Context(), "", "Target.attachToTarget", map[string]any{"targetId": info.TargetID, "flatten": true}, &attached); err != nil {
			t.Fatal(err)
		}
		if got := evaluate(t, conn, attached.SessionID, "document.forms[0].password.value"); got != "" {
			t.Errorf("the foreign page has %q", got)
		}
		return
	}
	t.Errorf("the foreign page is not open: %v", list)
}
