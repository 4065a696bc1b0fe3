package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

// commandLine runs svc with its own configuration.
type commandLine struct {
	binary, dir string
	environment []string
}

func newCommandLine(t *testing.T) commandLine {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return commandLine{filepath.Join(bin, "svc"), dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "XDG_CONFIG_HOME=" + dir}}
}

func (c commandLine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Dir, cmd.Env = c.dir, c.environment
	return cmd
}

// run fails the test unless the command ends with the code. It returns what the command prints.
func (c commandLine) run(t *testing.T, code int, input string, args ...string) (out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	cmd := c.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("svc %q: %v, want exit code %d\n%s%s", args, err, code, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

// decodeOutput runs the command with --json and decodes its output into the type of the document.
func decodeOutput[T any](t *testing.T, c commandLine, args ...string) T {
	t.Helper()
	out, _ := c.run(t, 0, "", append(args, "--json")...)
	var value T
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("svc %q: %v\n%s", args, err, out)
	}
	return value
}

// start starts a command that the test interrupts, and waits until it prints the part.
func (c commandLine) start(t *testing.T, part string, args ...string) *program {
	t.Helper()
	p := startCommand(t, c.command(context.WithoutCancel(t.Context()), args...), filepath.Join(c.dir, "log-"+args[0]), c.environment...)
	eventually(t, readyTimeout, "svc "+args[0]+" prints "+part, func() error {
		if text := p.logText(); !strings.Contains(text, part) {
			return errors.New(text)
		}
		return nil
	})
	return p
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t, "MAX_SESSIONS=1")
	c, page := newCommandLine(t), serveLoggingPage(t)
	t.Run("login", func(t *testing.T) { c.testLogin(t, env) })
	t.Run("doctor", func(t *testing.T) { c.testDoctor(t) })
	t.Run("profiles", func(t *testing.T) { c.testProfiles(t, env.worker.newestVersion(t), page) })
	t.Run("apply", func(t *testing.T) { c.testApply(t, env) })
	t.Run("session", func(t *testing.T) { c.testSession(t) })
	t.Run("run", func(t *testing.T) { c.testRun(t) })
	t.Run("interrupted", func(t *testing.T) { c.testInterrupted(t) })
	t.Run("completion", func(t *testing.T) { c.testCompletion(t) })
	t.Run("person", env.testPerson)
	env.waitForSlots(t, 0, 5*time.Second)
}

func (c commandLine) testLogin(t *testing.T, env testEnv) {
	if _, errs := c.run(t, 2, "", "ls"); !strings.Contains(errs, "svc login") {
		t.Errorf("without a login: %s", errs)
	}
	c.run(t, 5, "wrk_wrong\n", "login", "--worker", env.worker.url)
	if _, err := os.Stat(filepath.Join(c.dir, "svc")); err == nil {
		t.Error("a wrong key was stored")
	}
	c.run(t, 0, env.worker.key+"\n", "login", "--worker", env.worker.url)
	token, err := env.dashboard.CreateAccessTokenWithResponse(t.Context(), cloudapi.CreateAccessTokenRequest{
		Name: "svc", Scopes: []cloudapi.AccessTokenScope{cloudapi.ProfilesRead, cloudapi.ProfilesWrite},
	})
	requireAnswer(t, err, token, http.StatusCreated)
	c.run(t, 5, "svct_wrong", "login", "--cloud", env.cloud.url)
	c.run(t, 0, token.JSON201.Data.Token, "login", "--cloud", env.cloud.url)
	info, err := os.Stat(filepath.Join(c.dir, "svc", "config.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the configuration: %v, %v", info, err)
	}
}

func (c commandLine) testDoctor(t *testing.T) {
	type finding struct{ Check, State, Text, Advice string }
	var checks []string
	for _, f := range decodeOutput[[]finding](t, c, "doctor") {
		if f.Check == "isolation" || f.Check == "fonts" { // depends on the host
			if (f.State == "warning") != (f.Text != "complete") {
				t.Errorf("%+v", f)
			}
			continue
		}
		checks = append(checks, f.Check)
		if f.State != "ok" {
			t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(checks, " "); got != "reachable proxies tls clock version key ready launch websocket" {
		t.Errorf("checked %s", got)
	}
	key := filepath.Join(c.dir, "wrong")
	if err := os.WriteFile(key, []byte("wrk_wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(t, 6, "", "doctor", "--worker", "http://127.0.0.1:1", "--key-file", key)
	if out, _ := c.run(t, 5, "", "doctor", "--key-file", key); !strings.Contains(out, "→ Get the worker key") {
		t.Errorf("with a wrong key:\n%s", out)
	}
}

func (c commandLine) testProfiles(t *testing.T, version int32, page string) {
	text := fmt.Sprintf("- name: Shop\n  browserVersion: %d\n  startUrls: [%s]\n  geolocation: {latitude: 48.2, longitude: 16.4}\n"+
		"  proxy: null\n  viewport: {width: 1280, height: 720}\n- {name: Other, browserVersion: %d}\n", version, page, version)
	file := filepath.Join(c.dir, "profiles.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	actions := func(want string, args ...string) {
		t.Helper()
		var got []string
		for _, applied := range decodeOutput[[]struct {
			Name, ID, Action string
			Changes          []any
		}](t, c, append([]string{"profiles", "apply", "-f", file}, args...)...) {
			got = append(got, fmt.Sprint(applied.Action, len(applied.Changes)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
	actions("created5 created2", "--dry-run")
	if listed := decodeOutput[[]cloudapi.Profile](t, c, "profiles", "ls"); len(listed) != 0 {
		t.Errorf("a dry run created %+v", listed)
	}
	actions("created5 created2")
	actions("unchanged0 unchanged0")
	write(strings.Replace(text, "name: Shop", "name: Shop\n  locale: de-DE", 1))
	if out, _ := c.run(t, 0, "", "profiles", "apply", "-f", file, "--dry-run"); !strings.Contains(out, `locale: "de-DE" instead of null`) {
		t.Errorf("the difference is\n%s", out)
	}
	actions("updated1 unchanged0")
	profile := decodeOutput[cloudapi.Profile](t, c, "profiles", "get", "Shop")
	if profile.Locale == nil || *profile.Locale != "de-DE" {
		t.Errorf("got %+v", profile)
	}
	if out, _ := c.run(t, 0, "", "profiles", "get", profile.Id.String()); !strings.Contains(out, "locale: de-DE\n") {
		t.Errorf("as YAML:\n%s", out)
	}
	printed, _ := c.run(t, 0, "", "profiles", "get", "Shop")
	write(printed)
	actions("unchanged0")
	c.run(t, 3, "", "profiles", "get", "Unknown")
	write("name: Shop\ncolour: red")
	c.run(t, 1, "", "profiles", "apply", "-f", file)
}

func (c commandLine) testSession(t *testing.T) {
	session := decodeOutput[workerapi.BrowserSession](t, c, "launch", "--profile", "Shop", "--name", "job")
	if session.ProfileName != "Shop" || session.Name == nil || *session.Name != "job" {
		t.Errorf("launched %+v", session)
	}
	if _, errs := c.run(t, 4, "", "launch"); !strings.Contains(errs, "MAX_SESSIONS") {
		t.Errorf("the second launch: %s", errs)
	}
	if listed := decodeOutput[[]workerapi.BrowserSession](t, c, "ls"); len(listed) != 1 || listed[0].Id != session.Id {
		t.Errorf("listed %+v", listed)
	}
	if out, _ := c.run(t, 0, "", "ls"); !strings.HasPrefix(out, "SESSION ") || !strings.Contains(out, session.Id.String()) {
		t.Errorf("listed\n%s", out)
	}
	if out, _ := c.run(t, 0, "", "open", "job", "--print"); checkPages(strings.TrimSpace(out)) != nil {
		t.Errorf("the live view is %s: %v", out, checkPages(strings.TrimSpace(out)))
	}
	eventually(t, 10*time.Second, "the page has written to the console", func() error {
		out, _ := c.run(t, 0, "", "logs", "job")
		if !strings.Contains(out, "first") {
			return errors.New(out)
		}
		return nil
	})
	entry := decodeOutput[workerapi.PageLogEntry](t, c, "logs", "job")
	if entry.Seq == 0 {
		t.Errorf("logged %+v", entry)
	}
	follower := c.start(t, "first", "logs", "-f", "job")

	if err := os.WriteFile(filepath.Join(c.dir, "report.txt"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	stored := decodeOutput[workerapi.LaunchFile](t, c, "files", "put", "job", "report.txt")
	if files := decodeOutput[[]workerapi.LaunchFile](t, c, "files", "ls", "job"); len(files) != 1 || files[0].Id != stored.Id {
		t.Errorf("files are %+v", files)
	}
	c.run(t, 1, "", "files", "get", "job", "report.txt") // it exists here
	if out, _ := c.run(t, 0, "", "files", "get", "job", "report.txt", "-o", "-"); out != "content" {
		t.Errorf("the file has %q", out)
	}
	c.run(t, 0, "", "files", "get", "job", stored.Id, "-o", "copy.txt")
	if text, err := os.ReadFile(filepath.Join(c.dir, "copy.txt")); string(text) != "content" {
		t.Errorf("the copy has %q, %v", text, err)
	}
	c.run(t, 3, "", "files", "get", "job", "unknown")
	c.run(t, 0, "", "state", "save", "job", "-o", "state.json")
	c.run(t, 3, "", "record", "play", "job")
	c.run(t, 3, "", "record", "trace", "job")
	c.run(t, 3, "", "record", "har", "job")
	c.run(t, 3, "", "record", "script", "job")

	ended := decodeOutput[workerapi.BrowserSession](t, c, "end", session.Id.String())
	if ended.Status != sharedapi.SessionStatusKilled {
		t.Errorf("ended %+v", ended)
	}
	select {
	case <-follower.done:
		if code := follower.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("logs -f ended with %d: %s", code, follower.logText())
		}
	case <-time.After(stopTimeout):
		follower.kill()
		t.Error("logs -f goes on after the end")
	}
	if out, _ := c.run(t, 0, "", "show", "job"); !strings.Contains(out, "Ended") {
		t.Errorf("shown\n%s", out)
	}
	loaded := decodeOutput[workerapi.BrowserSession](t, c, "state", "load", "state.json", "--profile", "Shop")
	c.run(t, 0, "", "end", loaded.Id.String())
	c.run(t, 0, "", "launch", "--profile", "Shop", "--name", "recorded", "--record", "har,trace")
	if archive, _ := c.run(t, 0, "", "record", "har", "recorded"); !strings.Contains(archive, `"creator":{"name":"svc-worker"`) {
		t.Errorf("the archive has %s", archive)
	}
	if text, _ := c.run(t, 0, "", "record", "script", "recorded", "--language", "selenium-py"); !strings.Contains(text, "webdriver.Chrome()") {
		t.Errorf("the script is %s", text)
	}
	c.run(t, 0, "", "record", "har", "recorded", "-o", "recorded.har")
	if _, err := os.Stat(filepath.Join(c.dir, "recorded.har")); err != nil {
		t.Error(err)
	}
	c.run(t, 0, "", "end", "recorded")
	c.run(t, 3, "", "end", "019a5f3e-a1b2-7c3d-8e4f-5a6b7c8d9e05")
	c.run(t, 3, "", "open", "job")
}

// attachScript is a command for svc run: it uses both addresses of the browser.
const attachScript = `const {BROWSER_WS, CDP_URL, SELENIUM_REMOTE_URL} = process.env;
const version = new URL(CDP_URL); version.pathname += 'json/version';
const answer = await (await fetch(version)).json();
const socket = new WebSocket(BROWSER_WS);
socket.onopen = () => socket.send('{"id": 1, "method": "Browser.getVersion"}');
socket.onmessage = ({data}) => {
  console.log(JSON.parse(data).result.product === answer.Browser, SELENIUM_REMOTE_URL);
  process.exit(7);
};`

func (c commandLine) testRun(t *testing.T) {
	out, errs := c.run(t, 7, "", "run", "--profile", "Shop", "--state", "state.json", "--", "node", "--experimental-websocket", "--input-type=module", "-e", attachScript)
	if !strings.HasPrefix(out, "true http://svc:wrk_") || !strings.HasSuffix(out, "/wd/hub\n") {
		t.Errorf("the command printed %s, %s", out, errs)
	}
	c.run(t, 0, "", "run", "--", "sh", "-c", `svc show "$SVC_SESSION" | grep -q running`)
	c.run(t, 0, "", "run", "--", "sh", "-c", `svc end "$SVC_SESSION"`)
	c.assertNothingRuns(t)
}

func (c commandLine) testInterrupted(t *testing.T) {
	command := c.start(t, "started", "run", "--", "sh", "-c", "echo started; exec sleep 60")
	_ = command.cmd.Process.Signal(syscall.SIGTERM)
	<-command.done
	if code := command.cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("the exit code is %d: %s", code, command.logText())
	}
	c.assertNothingRuns(t)
	if err := os.Remove(command.log); err != nil {
		t.Fatal(err)
	}
	c.start(t, "Ctrl-C", "run").signalAndWait(t, syscall.SIGINT, stopTimeout)
	c.assertNothingRuns(t)
}

func (c commandLine) assertNothingRuns(t *testing.T) {
	t.Helper()
	if listed := decodeOutput[[]workerapi.BrowserSession](t, c, "ls"); len(listed) != 0 {
		t.Errorf("sessions are left: %+v", listed)
	}
}

// testPerson hands a browser to a person with the Go SDK.
func (s testEnv) testPerson(t *testing.T) {
	client, err := svc.New(svc.Options{Worker: s.worker.url, Key: s.worker.key})
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.Launch(t.Context(), svc.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if info, err := session.End(context.WithoutCancel(t.Context())); err != nil || info.Status != sharedapi.SessionStatusKilled {
			t.Errorf("ended with %+v, %v", info, err)
		}
	}()
	address, err := session.LiveView(t.Context(), true)
	if err == nil {
		err = checkPages(address)
	}
	if err != nil {
		t.Errorf("the live view without input: %v", err)
	}
	person := apiClient{client: http.DefaultClient, base: s.worker.url, header: []string{"X-API-Key", s.worker.key}}
	path := "/browsers/" + session.Info.LaunchId.String() + "/handover"
	handover, err := session.WaitForHuman(t.Context(), "Solve it.", time.Minute, func(viewURL string) {
		if err := checkPages(viewURL); err != nil {
			t.Errorf("the live view for the person: %v", err)
		}
		time.AfterFunc(100*time.Millisecond, func() { person.do(t, http.MethodPost, path+"/done", "{}") })
	})
	if err != nil || handover.Status != workerapi.HandoverStatusDone || handover.Reason != "Solve it." {
		t.Errorf("the handover ended with %+v, %v", handover, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := session.WaitForHuman(ctx, "Wait.", time.Minute, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	person.do(t, http.MethodGet, path, "").requireStatus(t, 200).requireValue(t, "data.status", `"canceled"`)
}

// wordsOfLine is what the completion uses of the package bash-completion, where that is not installed.
const wordsOfLine = `source /usr/share/bash-completion/bash_completion 2>/dev/null ||
	_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
`

// testCompletion completes words as bash does after TAB.
func (c commandLine) testCompletion(t *testing.T) {
	session := decodeOutput[workerapi.BrowserSession](t, c, "launch")
	defer c.run(t, 0, "", "end", session.Id.String())
	for line, want := range map[string]string{"svc pro": "profiles", "svc end ": session.Id.String(), "svc launch --hea": "--headless"} {
		script := fmt.Sprintf(wordsOfLine+`source <(svc completion bash); COMP_LINE='%s'; read -ra COMP_WORDS <<<"$COMP_LINE"; [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
			COMP_POINT=${#COMP_LINE} COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_TYPE=9; __start_svc; printf '%%s\n' "${COMPREPLY[@]}"`, line)
		bash := exec.CommandContext(t.Context(), "bash", "--norc", "-c", script)
		bash.Env = c.environment
		if out, err := bash.Output(); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%q is completed to %q, want %q: %v", line, out, want, err)
		}
	}
}
