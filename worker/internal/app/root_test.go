package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// TestRoot_ServesLaunchOfToken calls each operation at the root of the worker with the
// control token, without a token and for a target that does not exist.
func TestRoot_ServesLaunchOfToken(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.WorkerID = "worker-1" })
	s, other := r.launch(t), r.launch(t)
	control := token(*s.ViewUrl)
	bearer := []string{"Authorization", "Bearer " + control}
	page := decode[map[string]any](t, r.must(t, "PUT", "/json/new?about:blank", bearer...))["id"].(string)
	socket := decode[map[string]any](t, r.must(t, "GET", "/json/version", bearer...))["webSocketDebuggerUrl"].(string)
	if socket != *s.WebSocketDebuggerUrl {
		t.Errorf("got the socket %s, want %s", socket, *s.WebSocketDebuggerUrl)
	}
	address, err := url.Parse(socket)
	if err != nil {
		t.Fatal(err)
	}
	_, guid, _ := strings.Cut(address.Path, "/devtools/browser/")
	ended := token(*other.ViewUrl)
	r.session(t, "DELETE", "/sessions/"+other.Id.String(), "")
	for _, prefix := range []string{"", "/w/worker-1"} {
		for _, test := range []struct {
			method, path string
			target       bool
		}{
			{"GET", "/json/version", false},
			{"GET", "/json/list", false},
			{"GET", "/json/protocol", false},
			{"PUT", "/json/new", false},
			{"GET", "/json/activate/", true},
			{"GET", "/json/close/", true},
		} {
			ask := func(target, credential string, want int) {
				t.Helper()
				ctx, path := contracttest.AllowInvalidRequest(t.Context()), test.path
				if prefix != "" {
					ctx = contracttest.AllowUndocumentedRoute(ctx)
				}
				if test.target {
					path += target
				}
				status, text := r.call(ctx, t, test.method, prefix+path, "", "Authorization", credential)
				if status != want {
					t.Errorf("%s %s: %d %s, want %d", test.method, prefix+path, status, text, want)
				}
			}
			ask(page, "", 401)
			ask(page, "Bearer x", 401)
			if prefix == "" {
				ask(page, "Bearer "+ended, 404)
			}
			if test.target {
				ask("0123456789", bearer[1], 404)
			}
			if prefix == "" || !test.target { // the tab is closed by then
				ask(page, bearer[1], 200)
			}
		}
	}
	page = decode[map[string]any](t, r.must(t, "PUT", "/json/new?about:blank", bearer...))["id"].(string)
	withToken := http.Header{"Authorization": bearer[1:]}
	for path, want := range map[string]struct {
		header http.Header
		status int
	}{
		"/devtools/browser/" + guid:                    {withToken, 101},
		"/devtools/browser/" + guid + "?ct=" + control: {nil, 101},
		"/devtools/browser/x":                          {withToken, 404},
		"/devtools/browser/y":                          {nil, 401},
		"/devtools/page/" + page:                       {withToken, 101},
		"/devtools/page/" + page + "?ct=x":             {nil, 401},
		"/devtools/page/x":                             {withToken, 404},
	} {
		if status, body := r.upgrade(t, path, want.header); status != want.status {
			t.Errorf("%s: %d %s, want %d", path, status, body, want.status)
		}
	}
	for _, path := range []string{"/devtools/browser/" + guid, "/devtools/page/" + page} {
		if status, body := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "GET", path, "", bearer...); status != 400 {
			t.Errorf("%s without a handshake: got %d %s, want 400", path, status, body)
		}
	}
	base := "/browsers/" + s.LaunchId.String()
	for _, path := range []string{
		"/?ct=" + control, "/w/worker-1?ct=" + control, "/w/worker-1/?ct=" + control, "/devtools/browser?ct=" + control,
		base + "?ct=" + control, base + "/?ct=" + control, "/w/worker-1" + base + "/?ct=" + control,
		"/?ct=" + control + "/devtools/page/" + page, base + "/devtools/browser/" + guid + "/?ct=" + control,
	} {
		if err := r.dial(t, "ws"+strings.TrimPrefix(r.url, "http")+path); err != nil {
			t.Errorf("%s: %v", strings.ReplaceAll(path, control, "TOKEN"), err)
		}
	}
}

// must returns the answer to an operation that succeeds.
func (r *testWorker) must(t *testing.T, method, path string, headers ...string) []byte {
	t.Helper()
	status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, method, path, "", headers...)
	if status != 200 {
		t.Fatalf("%s %s: got %d %s", method, path, status, text)
	}
	return text
}
