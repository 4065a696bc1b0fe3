package app_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// elementKey is the member of a web element reference (WebDriver, 12.2).
const elementKey = "element-6066-11e4-a52e-4f735466cecf"

// callersKey is an organization key that is not the worker's.
const callersKey = "svc_callerscallerscallerscallerscalle"

// webDriverSession is a WebDriver session of a worker.
type webDriverSession struct {
	*testWorker
	base         string // the path of the session
	capabilities map[string]any
}

// webDriverError is the value of an error.
type webDriverError struct {
	Error, Message string
	Data           struct {
		Code    string
		Details []struct{ Field, Message string }
	}
}

// newSession returns the answer to a new session command.
func (r *testWorker) newSession(t *testing.T, alwaysMatch map[string]any, headers ...string) (status int, text []byte) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"capabilities": map[string]any{"alwaysMatch": alwaysMatch}})
	if err != nil {
		t.Fatal(err)
	}
	return r.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", "/wd/hub/session", string(body), headers...)
}

// drive starts a session with the worker key.
func (r *testWorker) drive(t *testing.T, alwaysMatch map[string]any) *webDriverSession {
	t.Helper()
	status, text := r.newSession(t, alwaysMatch, "X-API-Key", workerKey)
	var answer struct {
		Value struct {
			SessionID    string
			Capabilities map[string]any
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || status != http.StatusOK {
		t.Fatalf("new session: %d %s (%v)\n%s", status, text, err, r.log)
	}
	r.secrets = append(r.secrets, answer.Value.SessionID)
	return &webDriverSession{r, "/wd/hub/session/" + answer.Value.SessionID, answer.Value.Capabilities}
}

// try sends a command.
func (d *webDriverSession) try(t *testing.T, method, path, body string, headers ...string) (status int, text []byte) {
	t.Helper()
	ctx := contracttest.AllowInvalidRequest(t.Context())
	if strings.Count(path, "/") > 1 || !strings.HasPrefix(d.base, "/wd/hub/") { // the document has only one of each
		ctx = contracttest.AllowUndocumentedRoute(ctx)
	}
	return d.call(ctx, t, method, d.base+path, body, headers...)
}

// do sends a command and returns its value.
func (d *webDriverSession) do(t *testing.T, method, path string, parameters any) any {
	t.Helper()
	body, err := json.Marshal(parameters)
	if err != nil {
		t.Fatal(err)
	}
	if method != http.MethodPost {
		body = nil
	}
	status, text := d.try(t, method, path, string(body))
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return decode[map[string]any](t, text)["value"]
}

// element returns the path of the element that a selector finds.
func (d *webDriverSession) element(t *testing.T, selector string) string {
	t.Helper()
	found, _ := d.do(t, "POST", "/element", map[string]any{"using": "css selector", "value": selector}).(map[string]any)
	id, _ := found[elementKey].(string)
	return "/element/" + id
}

func (d *webDriverSession) script(t *testing.T, script string) any {
	t.Helper()
	return d.do(t, "POST", "/execute/sync", map[string]any{"script": script, "args": []any{}})
}

// assertError fails unless an answer is an error of WebDriver.
func assertError(t *testing.T, what string, status int, text []byte, wantStatus int, want, message string) {
	t.Helper()
	got := decode[struct{ Value webDriverError }](t, text).Value
	if status != wantStatus || got.Error != want || !strings.Contains(got.Message, message) || got.Data.Code == "" {
		t.Errorf("%s: %d %s, want %d %s with %q", what, status, text, wantStatus, want, message)
	}
}

// assertChromeDriverError fails unless an answer is this error of chromedriver.
func assertChromeDriverError(t *testing.T, status int, text []byte, wantStatus int, want string) {
	t.Helper()
	if got := decode[struct{ Value webDriverError }](t, text).Value; status != wantStatus || got.Error != want {
		t.Errorf("got %d %s, want %d %s", status, text, wantStatus, want)
	}
}

// awaitSessionEnd waits until the session of a driven browser has ended and returns its
// end reason.
func (d *webDriverSession) awaitSessionEnd(t *testing.T) string {
	t.Helper()
	own, _ := d.capabilities["svc:session"].(map[string]any)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s := d.session(t, "GET", "/sessions/"+own["sessionId"].(string), "")
		if s.EndReason != nil {
			return string(*s.EndReason)
		}
		if time.Now().After(deadline) {
			t.Fatal("the session did not end")
		}
	}
}

// drivers returns the processes of chromedriver that this worker has started.
func (r *testWorker) drivers() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environment, _ := os.ReadFile(file)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		var pid int
		if bytes.Contains(environment, []byte("SVC_LAUNCH="+r.config.DataDir+"/")) && bytes.Contains(command, []byte("chromedriver")) {
			if _, err := fmt.Sscan(filepath.Base(filepath.Dir(file)), &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func TestWebDriver_DrivesBrowser(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), func(c *app.Config) { c.WorkerID = "worker-1" })
	page := servePageFor(t)
	d := r.drive(t, map[string]any{
		"browserName": "chrome", "pageLoadStrategy": "eager", "acceptInsecureCerts": true, "timeouts": map[string]any{"implicit": 1234}, "webSocketUrl": true,
		"se:name": "a test", "goog:chromeOptions": map[string]any{"args": []string{"--headless=new", "--no-sandbox"}, "extensions": []string{}},
		"svc:options": map[string]any{"profileId": r.cloud.Profile(r.version), "browser": map[string]any{"metadata": map[string]string{"a": "b"}}},
	})
	if n := len(r.drivers()); n != 1 {
		t.Errorf("%d chromedrivers run", n)
	}
	if d.capabilities["pageLoadStrategy"] != "eager" || d.capabilities["acceptInsecureCerts"] != true || fmt.Sprint(d.capabilities["goog:chromeOptions"]) != "map[]" {
		t.Errorf("got the capabilities %v", d.capabilities)
	}
	if cdp, _ := d.capabilities["se:cdp"].(string); !strings.HasPrefix(cdp, "ws://localhost:") || !strings.HasSuffix(cdp, "/w/worker-1"+d.base+"/se/cdp") {
		t.Errorf("se:cdp is %q", cdp)
	} else if answer := ask(t, cdp, `{"id":1,"method":"Browser.getVersion"}`); !strings.Contains(answer, fmt.Sprintf("Chrome/%d.", r.version)) {
		t.Errorf("se:cdp answers %s", answer)
	}
	if timeouts, _ := d.do(t, "GET", "/timeouts", nil).(map[string]any); timeouts["implicit"] != 1234.0 {
		t.Errorf("got the timeouts %v", timeouts)
	}
	d.do(t, "POST", "/url", map[string]any{"url": page})
	if title := d.do(t, "GET", "/title", nil); title != "A page" {
		t.Errorf("got the title %v", title)
	}
	d.do(t, "POST", d.element(t, "button")+"/click", map[string]any{})
	if clicked := d.script(t, "return document.body.dataset.clicked"); clicked != "yes" {
		t.Errorf("the click had no effect: %v", clicked)
	}
	if picture, _ := d.do(t, "GET", "/screenshot", nil).(string); !strings.HasPrefix(picture, "iVBORw0KGgo") {
		t.Errorf("the screenshot is no PNG: %.20q", picture)
	}
	if value := decode[struct{ Value struct{ Ready bool } }](t, r.must(t, "GET", "/wd/hub/status")).Value; !value.Ready {
		t.Error("the worker is not ready")
	}
	d.do(t, "DELETE", "/cookie", nil)
	status, text := d.try(t, "GET", "/unknown", "")
	assertChromeDriverError(t, status, text, 404, "unknown command")
	d.uploads(t)
	d.listens(t)
	below := *d
	below.base = strings.TrimPrefix(d.base, "/wd/hub")
	if title := below.do(t, "GET", "/title", nil); title != "A page" {
		t.Errorf("without /wd/hub: got the title %v", title)
	}
	if value := d.do(t, "DELETE", "", nil); value != nil {
		t.Errorf("the end returned %v", value)
	}
	if reason := d.awaitSessionEnd(t); reason != "killed" {
		t.Errorf("the session ended because of %s", reason)
	}
	for _, method := range []string{"GET", "POST", "DELETE"} {
		body := map[bool]string{true: "{}"}[method == "POST"]
		status, text := d.try(t, method, "/title", body)
		assertError(t, "a command after the end", status, text, 404, "invalid session id", "")
	}
	status, text = d.try(t, "DELETE", "", "")
	assertError(t, "a second end", status, text, 404, "invalid session id", "")
	if left := r.drivers(); len(left) > 0 {
		t.Errorf("chromedriver runs: %v", left)
	}
}

// ask sends a message to a WebSocket and returns the answer.
func ask(t *testing.T, address, message string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := ws.Dial(ctx, address, nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if err := conn.Write(ctx, ws.Text, []byte(message)); err != nil {
		t.Fatal(err)
	}
	_, answer, err := conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func servePageFor(t *testing.T) string {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<title>A page</title><button onclick="document.body.dataset.clicked='yes'">Click</button><input type="file">`))
	}))
	t.Cleanup(site.Close)
	return site.URL
}

// uploads sends a file and selects it in the page.
func (d *webDriverSession) uploads(t *testing.T) {
	t.Helper()
	path, _ := d.do(t, "POST", "/se/file", map[string]any{"file": archive(t, "a file.txt", "content of the client")}).(string)
	if !strings.HasSuffix(path, "/a file.txt") {
		t.Errorf("the file is at %q", path)
	}
	d.do(t, "POST", d.element(t, "input")+"/value", map[string]any{"text": path})
	read := `const done = arguments[0], file = document.querySelector('input').files[0]; file.text().then(text => done(file.name + ': ' + text), done)`
	if got := d.do(t, "POST", "/execute/async", map[string]any{"script": read, "args": []any{}}); got != "a file.txt: content of the client" {
		t.Errorf("the page reads %v", got)
	}
	for what, body := range map[string]string{
		"no archive":       `{"file":"aGVsbG8="}`,
		"no base64":        `{"file":"?"}`,
		"two files":        `{"file":"` + archive(t, "a", "1", "b", "2") + `"}`,
		"a directory name": `{"file":"` + archive(t, "..", "1") + `"}`,
	} {
		status, text := d.try(t, "POST", "/se/file", body)
		assertError(t, what, status, text, 400, "invalid argument", "file ")
	}
}

// archive returns a zip archive of files as name, content, ...
func archive(t *testing.T, files ...string) string {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err == nil {
			_, err = f.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

// listens evaluates a script over the WebDriver BiDi socket and receives its log entry.
func (d *webDriverSession) listens(t *testing.T) {
	t.Helper()
	address, _ := d.capabilities["webSocketUrl"].(string)
	if !strings.HasPrefix(address, "ws://localhost:") || !strings.HasSuffix(address, "/w/worker-1"+d.base) {
		t.Fatalf("webSocketUrl is %q", address)
	}
	if status, text := d.upgrade(t, d.base, nil); status != http.StatusSwitchingProtocols {
		t.Errorf("the WebDriver BiDi socket: %d %s", status, text)
	}
	conn, err := ws.Dial(t.Context(), address, nil, ws.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	window, _ := d.do(t, "GET", "/window", nil).(string)
	for _, message := range []string{
		`{"id":1,"method":"session.subscribe","params":{"events":["log.entryAdded"]}}`,
		`{"id":2,"method":"script.evaluate","params":{"expression":"console.log('from the page'), 6 * 7","target":{"context":"` + window + `"},"awaitPromise":false}}`,
	} {
		if err := conn.Write(ctx, ws.Text, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	logged, evaluated := false, false
	for !logged || !evaluated {
		_, message, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("log entry %v, result %v: %v", logged, evaluated, err)
		}
		text := string(message)
		logged = logged || strings.Contains(text, "log.entryAdded") && strings.Contains(text, "from the page")
		evaluated = evaluated || strings.Contains(text, `"id":2`) && strings.Contains(text, `"value":42`)
	}
}

func TestWebDriver_EndsTogether(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	closed := r.drive(t, nil)
	status, text := closed.upgrade(t, closed.base, nil)
	assertError(t, "WebDriver BiDi without the capability", status, []byte(text), 400, "invalid argument", "webSocketUrl")
	if left, _ := closed.do(t, "DELETE", "/window", nil).([]any); len(left) > 0 {
		t.Errorf("%v windows are left", left)
	}
	if reason := closed.awaitSessionEnd(t); reason != "killed" {
		t.Errorf("after the last window: %s", reason)
	}
	byRequest := r.drive(t, nil)
	own, _ := byRequest.capabilities["svc:session"].(map[string]any)
	r.session(t, "DELETE", "/sessions/"+own["sessionId"].(string), "")
	withoutDriver := r.drive(t, nil)
	for _, pid := range r.drivers() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if reason := withoutDriver.awaitSessionEnd(t); reason != "crash" {
		t.Errorf("after the end of chromedriver: %s", reason)
	}
	idle := r.drive(t, map[string]any{"svc:options": map[string]any{"spec": map[string]any{}, "browser": map[string]any{"idleTimeoutSeconds": 3}}})
	for range 8 {
		idle.do(t, "GET", "/title", nil)
		time.Sleep(500 * time.Millisecond)
	}
	if reason := idle.awaitSessionEnd(t); reason != "idle" {
		t.Errorf("without commands: %s", reason)
	}
	for name, d := range map[string]*webDriverSession{"closed": closed, "by request": byRequest, "without chromedriver": withoutDriver, "idle": idle} {
		status, text := d.try(t, "GET", "/title", "")
		assertError(t, name, status, text, 404, "invalid session id", "")
	}
	if left := r.drivers(); len(left) > 0 {
		t.Errorf("chromedriver runs: %v", left)
	}
}

func TestWebDriver_Refusals(t *testing.T) {
	fake := cloudtest.New(t)
	fake.AddKey(callersKey)
	r := startTestWorker(t, fake)
	own := func(options map[string]any) map[string]any { return map[string]any{"svc:options": options} }
	for name, test := range map[string]struct {
		capabilities  map[string]any
		headers       []string
		status        int
		code, message string
	}{
		"no key":           {nil, nil, 401, "session not created", "key is required"},
		"unknown key":      {nil, []string{"Authorization", "Bearer svc_" + strings.Repeat("a", 32)}, 401, "session not created", ""},
		"two keys":         {own(map[string]any{"token": "another"}), []string{"X-API-Key", workerKey}, 400, "invalid argument", "svc:options.token"},
		"unknown profile":  {own(map[string]any{"profileId": "0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"}), []string{"X-API-Key", workerKey}, 500, "session not created", "profile"},
		"unknown field":    {own(map[string]any{"spec": map[string]any{}, "browser": map[string]any{"x": 1}}), []string{"X-API-Key", workerKey}, 400, "invalid argument", "svc:options.browser.x"},
		"another browser":  {map[string]any{"browserName": "firefox"}, []string{"X-API-Key", workerKey}, 500, "session not created", "browserName must be chrome or chromium"},
		"uninstalled":      {map[string]any{"browserVersion": "42"}, []string{"X-API-Key", workerKey}, 500, "session not created", "42"},
		"a program":        {map[string]any{"goog:chromeOptions": map[string]any{"binary": "/bin/sh"}}, []string{"X-API-Key", workerKey}, 400, "invalid argument", "goog:chromeOptions.binary must not be set"},
		"a browser":        {map[string]any{"goog:chromeOptions": map[string]any{"debuggerAddress": "127.0.0.1:9222"}}, []string{"X-API-Key", workerKey}, 400, "invalid argument", "debuggerAddress"},
		"a refused switch": {map[string]any{"goog:chromeOptions": map[string]any{"args": []string{"--user-data-dir=/tmp/x"}}}, []string{"X-API-Key", workerKey}, 400, "invalid argument", "--user-data-dir is not allowed"},
		"chromedriver's":   {map[string]any{"unhandledPromptBehavior": "perhaps"}, []string{"X-API-Key", workerKey}, 400, "invalid argument", "refused by chromedriver"},
		"another page":     {nil, []string{"X-API-Key", workerKey, "Origin", "https://evil.example"}, 403, "unknown error", "Pages of this origin"},
	} {
		status, text := r.newSession(t, test.capabilities, test.headers...)
		assertError(t, name, status, text, test.status, test.code, test.message)
	}
	if status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, "POST", "/wd/hub/session", `{"desiredCapabilities":{}}`, "X-API-Key", workerKey); status != 400 {
		t.Errorf("desiredCapabilities: %d %s", status, text)
	}
	status, text := r.call(t.Context(), t, "GET", "/wd/hub/status", "", "Origin", "https://evil.example")
	assertError(t, "the status for another page", status, text, 403, "unknown error", "Pages of this origin")
	unknown := &webDriverSession{r, "/wd/hub/session/svc_" + strings.Repeat("b", 32), nil}
	if status, text := r.upgrade(t, unknown.base, nil); status != http.StatusNotFound {
		t.Errorf("the socket of an unknown session: %d %s", status, text)
	}
	status, text = unknown.try(t, "GET", "/title", "")
	assertError(t, "an unknown session", status, text, 404, "invalid session id", "")
	if left := r.drivers(); len(left) > 0 {
		t.Errorf("chromedriver runs: %v", left)
	}
}

func TestWebDriver_AcceptsKeys(t *testing.T) {
	fake := cloudtest.New(t)
	fake.AddKey(callersKey)
	r := startTestWorker(t, fake)
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for name, headers := range map[string][]string{
		"worker key, Bearer":       {"Authorization", "Bearer " + workerKey},
		"worker key, Basic":        {"Authorization", basic("user", workerKey)},
		"organization key, Basic":  {"Authorization", basic(callersKey, "")},
		"organization key, header": {"X-API-Key", callersKey},
		"capability":               nil,
	} {
		capabilities := map[string]any{}
		if headers == nil {
			capabilities["svc:options"] = map[string]any{"token": callersKey}
		}
		status, text := r.newSession(t, capabilities, headers...)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, text)
			continue
		}
		id := decode[struct{ Value struct{ SessionID string } }](t, text).Value.SessionID
		r.secrets = append(r.secrets, id, callersKey)
		d := &webDriverSession{r, "/wd/hub/session/" + id, nil}
		if status, text := d.try(t, "GET", "/url", "", "Origin", "https://evil.example"); status != http.StatusForbidden {
			t.Errorf("a command of another page: %d %s", status, text)
		}
		d.do(t, "DELETE", "", nil)
	}
}

// TestWebDriver_NoDriverTakesNoSlot checks that a worker without a fitting chromedriver
// refuses before it asks the cloud.
func TestWebDriver_NoDriverTakesNoSlot(t *testing.T) {
	fake := cloudtest.New(t)
	r := startTestWorker(t, fake, func(c *app.Config) { c.ChromeDriver = "/nonexistent/chromedriver" })
	status, text := r.newSession(t, nil, "X-API-Key", workerKey)
	assertError(t, "no chromedriver", status, text, 500, "session not created", fmt.Sprintf("no chromedriver %d", r.version))
	assertError(t, "the package of chromedriver", status, text, 500, "session not created", "apt-get install chromium-driver")
	if requests := fake.CallCount(cloudtest.Authorize); requests != 0 {
		t.Errorf("the cloud was asked %d times", requests)
	}
}

// TestWebDriver_HidesDriverID: chromedriver's id of the session has 32 hexadecimal digits.
func TestWebDriver_HidesDriverID(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	d := r.drive(t, map[string]any{"goog:loggingPrefs": map[string]any{"driver": "ALL"}})
	d.do(t, "POST", "/url", map[string]any{"url": "about:blank"})
	own, _ := d.capabilities["svc:session"].(map[string]any)
	id := fmt.Sprint(own["sessionId"])
	driverID := regexp.MustCompile(`\b[0-9a-f]{32}\b`)
	for _, command := range []struct{ method, path, body string }{
		{"POST", "/se/log", `{"type":"driver"}`}, {"POST", "/log", `{"type":"driver"}`}, {"GET", "/unknown", ""},
	} {
		status, text := d.try(t, command.method, command.path, command.body)
		if found := driverID.Find(text); found != nil || !strings.Contains(string(text), id) {
			t.Errorf("%s %s: %d, chromedriver's id %q, the session's id is missing: %v\n%.2000s", command.method, command.path, status, found, !strings.Contains(string(text), id), text)
		}
	}
}
