package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

// invoke runs a command with an empty standard input.
func invoke(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	input, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	var stdout, stderr bytes.Buffer
	code = execute(args, input, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// isolate removes the settings of the person who runs the tests.
func isolate(t *testing.T) {
	t.Helper()
	for _, name := range []string{"SVC_WORKER", "SVC_API_KEY", "SVC_CLOUD_URL", "SVC_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
}

func TestExecute_ExitCodesOfAnswers(t *testing.T) {
	isolate(t)
	for _, tc := range []struct {
		status  int
		code    string
		details string
		exit    int
	}{
		{400, "VALIDATION_ERROR", "", exitFailure},
		{400, "RESOURCE_NOT_FOUND", "", exitNotFound},
		{401, "AUTHENTICATION_ERROR", "", exitUnauthorized},
		{402, "AUTHORIZATION_ERROR", "", exitLimit},
		{403, "AUTHORIZATION_ERROR", "", exitUnauthorized},
		{403, "AUTHORIZATION_ERROR", `,"details":[{"field":"name","code":"CUSTOM","message":"profile_limit","constraint":{"limit":3}}]`, exitLimit},
		{404, "RESOURCE_NOT_FOUND", "", exitNotFound},
		{409, "RESOURCE_CONFLICT", "", exitFailure},
		{424, "AUTHENTICATION_ERROR", "", exitUnauthorized},
		{500, "INTERNAL_ERROR", "", exitFailure},
		{503, "EXTERNAL_SERVICE_ERROR", "", exitUnreachable},
		{503, "EXTERNAL_SERVICE_ERROR", `,"details":[{"field":"maxSessions","code":"CUSTOM","message":"is full","constraint":{"limit":1}}]`, exitLimit},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = fmt.Fprintf(w, `{"success":false,"error":{"code":%q,"message":"Because."%s}}`, tc.code, tc.details)
		}))
		t.Setenv("SVC_WORKER", server.URL)
		t.Setenv("SVC_API_KEY", "wrk_key")
		code, out, errs := invoke(t, "launch")
		server.Close()
		if code != tc.exit || out != "" || !strings.HasPrefix(errs, "svc: Because.") {
			t.Errorf("%d %s: exit code %d, want %d; %q, %q", tc.status, tc.code, code, tc.exit, out, errs)
		}
	}
	if code, _, errs := invoke(t, "launch"); code != exitUnreachable || !strings.Contains(errs, "svc doctor") {
		t.Errorf("closed server: %d, %s", code, errs)
	}
}

func TestExecute_WrongUsage(t *testing.T) {
	isolate(t)
	for _, line := range []string{"", "unknown", "end", "end a b", "ls --colour", "files", "files unknown", "profiles apply", "launch --profile a --spec {}", "ls"} {
		code, _, errs := invoke(t, strings.Fields(line)...)
		if line == "" {
			if code != 0 { // the help
				t.Errorf("no command: %d", code)
			}
			continue
		}
		if code != exitUsage || !strings.HasPrefix(errs, "svc: ") {
			t.Errorf("%q: exit code %d, %q", line, code, errs)
		}
	}
	t.Setenv("SVC_WORKER", "http://127.0.0.1:1")
	t.Setenv("SVC_API_KEY", "wrk_key")
	for _, args := range [][]string{{"launch", "--spec", `{"unknown":1}`}, {"run", "--", "no-such-program"}} {
		if code, _, errs := invoke(t, args...); code != exitUsage {
			t.Errorf("%q: exit code %d, %q", args, code, errs)
		}
	}
	if code, out, _ := invoke(t, "--help"); code != 0 || !strings.Contains(out, "Exit codes:") || !strings.Contains(out, "6  the worker or the cloud cannot be reached") {
		t.Errorf("help: %d\n%s", code, out)
	}
}

func TestSettings_StoredKeyStaysWithItsServer(t *testing.T) {
	isolate(t)
	stored := config{Worker: "https://a.example", Key: "key-a", Cloud: "https://cloud.example", Token: "token"}
	path, err := stored.write()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got, err := (&app{}).settings(); err != nil || got != stored {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := (&app{given: config{Worker: "https://b.example", Cloud: "https://c.example"}}).settings(); err != nil || got.Key != "" || got.Token != "" {
		t.Errorf("for other servers: %+v, %v", got, err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(" key-b\nmore"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SVC_API_KEY", "key-c")
	if got, err := (&app{keyFile: file}).settings(); err != nil || got.Key != "key-b" {
		t.Errorf("with a file: %+v, %v", got, err)
	}
	if got, err := (&app{}).settings(); err != nil || got.Key != "key-c" {
		t.Errorf("with a variable: %+v, %v", got, err)
	}
}

func TestFormatTable_CutsLinesAndReplacesControls(t *testing.T) {
	got := formatTable([][]string{{"ID", "NAME"}, {"1", "a\x1b[31mb\tc\n2"}, {"2", "Übermäßig lang"}}, 12)
	if want := "ID  NAME\n1   a\uFFFD[31mb…\n2   Übermäß…\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := formatTable([][]string{{"a", "-"}, {"long", "b"}}, 0); got != "a     -\nlong  b\n" {
		t.Errorf("got\n%s", got)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{5 * time.Second: "5s", 3 * time.Minute: "3m", 90 * time.Hour: "3d", 5 * time.Hour: "5h"} {
		moment := time.Now().Add(-d)
		if got := age(&moment); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
	if got := age(nil); got != "-" {
		t.Errorf("got %s", got)
	}
}

func TestLocalName_StaysInDirectory(t *testing.T) {
	for name, want := range map[string]string{
		"report.pdf": "report.pdf", "../../etc/passwd": "passwd", `C:\a\b.txt`: "b.txt", ".bashrc": "bashrc", "..": "download", "-rf": "rf", "": "download", "/": "download",
	} {
		if got := localName(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func TestMatch_FindsSessions(t *testing.T) {
	session := func(id, name string, status sharedapi.SessionStatus) *svc.Session {
		return &svc.Session{ID: id, Info: svc.SessionInfo{Id: uuid.New(), Name: &name, Status: status}}
	}
	sessions := []*svc.Session{
		session("aaaaa001", "job", sharedapi.SessionStatusKilled), session("aaaaa002", "job", sharedapi.SessionStatusRunning),
		session("bbbbb003", "other", sharedapi.SessionStatusKilled), session("ccccc004", "a002", sharedapi.SessionStatusRunning),
	}
	for given, want := range map[string]string{"job": "aaaaa002", "aaaaa": "aaaaa002", "a001": "aaaaa001", "other": "bbbbb003", "a002": "ccccc004"} {
		if found, err := match(sessions, given); err != nil || found.ID != want {
			t.Errorf("%s: found %+v, %v", given, found, err)
		}
	}
	for _, given := range []string{"none", "", "3", "bbb"} {
		if found, err := match(sessions, given); exitCode(err) != exitNotFound {
			t.Errorf("%q: found %+v, %v", given, found, err)
		}
	}
	if _, err := match(sessions[:1], "aaaaa"); err != nil {
		t.Error(err)
	}
	sessions[0].Info.Status = sharedapi.SessionStatusRunning
	if _, err := match(sessions, "aaaaa"); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "fits 2 sessions") {
		t.Errorf("got %v", err)
	}
}

// The command fails, and the browser cannot be ended: both are said.
func TestRun_SaysThatBrowserMayStillRun(t *testing.T) {
	isolate(t)
	id := uuid.NewString()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprint(w, `{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Because."}}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"success":true,"data":{"id":%q,"webSocketDebuggerUrl":"ws://worker/browsers/x"}}`, id)
	}))
	defer server.Close()
	t.Setenv("SVC_WORKER", server.URL)
	key, pipe, err := os.Pipe() // is read once
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	if _, err := fmt.Fprintln(pipe, "wrk_key"); err != nil {
		t.Fatal(err)
	}
	_ = pipe.Close()
	var errs bytes.Buffer
	code := execute([]string{"run", "--key-file", "-", "--", "sh", "-c", "exit 7"}, key, &bytes.Buffer{}, &errs)
	if code != 7 || !strings.Contains(errs.String(), "the session "+id+" may still run, because it could not be ended: Because.") {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
}

func TestParseProfiles(t *testing.T) {
	for text, want := range map[string]string{
		"name: a\nbrowserVersion: 156": `[{"browserVersion":156,"name":"a"}]`,
		"- name: a\n- {name: b}":       `[{"name":"a"},{"name":"b"}]`,
		`{"name": "a", "tags": []}`:    `[{"name":"a","tags":[]}]`,
	} {
		profiles, err := parseProfiles([]byte(text))
		got, _ := json.Marshal(profiles)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"": `not ""`, "- a": `not ""`, "name: ''": `not ""`, "[{name: a}, {name: a}]": `not "a"`, "a: [": "did not find"} {
		profiles, err := parseProfiles([]byte(text))
		if err == nil {
			err = new(plan).add("profile", "name", profiles, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestDifferences_ComparesWhatAnswersHave(t *testing.T) {
	object := func(text string) (fields map[string]any) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatal(err)
		}
		return fields
	}
	present := object(`{"name":"a","locale":null,"tags":["x"],"extraHTTPHeaders":{"A":"1","B":"2"},"viewport":{"width":1,"height":2},
		"proxy":{"server":"http://p","username":null,"hasPassword":true}}`)
	for text, want := range map[string]string{
		`{"name":"a","tags":["x"],"locale":null,"persist":null}`: ``,
		`{"locale":"de-DE"}`:                                  `locale: "de-DE" instead of null`,
		`{"tags":["x","y"]}`:                                  `tags: ["x","y"] instead of ["x"]`,
		`{"extraHTTPHeaders":{"A":"1"}}`:                      `extraHTTPHeaders: {"A":"1"} instead of {"A":"1","B":"2"}`,
		`{"viewport":{"height":2,"width":1}}`:                 ``,
		`{"proxy":{"server":"http://p"}}`:                     ``,
		`{"proxy":{"server":"http://p","password":"secret"}}`: `proxy: {"password":"(secret)","server":"http://p"} instead of {"hasPassword":true,"server":"http://p","username":null}`,
	} {
		got := ""
		for _, c := range differences(present, object(text)) {
			got += c.String()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestBrowserVariables_KeepPrefix(t *testing.T) {
	session := &svc.Session{ID: "1", WebSocketURL: "wss://edge.example/w/worker-1/browsers/2/devtools/browser/3?ct=TOKEN"}
	got, err := browserVariables(session, config{Worker: "https://edge.example/w/worker-1", Key: "wrk_a/b"})
	want := "BROWSER_WS=" + session.WebSocketURL + " CDP_URL=https://edge.example/w/worker-1/?ct=TOKEN" +
		" SELENIUM_REMOTE_URL=https://svc:wrk_a%2Fb@edge.example/w/worker-1/wd/hub SVC_SESSION=1"
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDoctor_SaysWhatIsWrong(t *testing.T) {
	isolate(t)
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	t.Setenv("SVC_API_KEY", "wrk_key")
	for address, want := range map[string]string{
		page.URL:   "is not a worker",
		secure.URL: "Install the certificate of the authority",
		strings.Replace(page.URL, "http:", "https:", 1): "does not use TLS",
		closed.URL:               "No program listens",
		"http://worker.invalid/": "cannot be resolved",
	} {
		code, out, _ := invoke(t, "doctor", "--worker", address)
		if code != exitUnreachable || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, want %q:\n%s", address, code, want, out)
		}
	}
}

func TestDoctor_WarnsOfMissingIsolation(t *testing.T) {
	var missing []workerapi.IsolationPieceName
	for _, name := range strings.Fields("userId pidNamespace processList networkNamespace mountNamespace privateFiles memoryLimit processLimit cgroupKill sandbox") {
		missing = append(missing, workerapi.IsolationPieceName(name))
	}
	health := workerapi.WorkerHealth{Isolation: workerapi.IsolationSummary{Missing: missing}, MissingScripts: &[]workerapi.WritingScript{"thai", "emoji"}}
	found := checkHost(health)
	for i, f := range found {
		if f.State != "warning" || (f.Advice != "") != (i >= len(missing)-1) || strings.HasSuffix(f.Text, "not in effect") {
			t.Errorf("%+v", f)
		}
	}
	if len(found) != len(missing)+1 || !strings.HasSuffix(found[len(missing)].Text, "thai, emoji") {
		t.Errorf("found %+v", found)
	}
	if found := checkHost(workerapi.WorkerHealth{}); len(found) != 1 || found[0].State != "ok" {
		t.Errorf("a complete host: %+v", found)
	}
}
