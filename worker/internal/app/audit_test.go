package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/audit"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func withAudit(c *app.Config) {
	withFiles(c)
	c.Audit = "actions"
}

// auditLog returns the path of the activity log of a session.
func (r *testWorker) auditLog(s workerapi.BrowserSession) string {
	return filepath.Join(r.config.DataDir, "audit", s.Id.String()+".jsonl")
}

// verifyAudit verifies an activity log with a key.
func verifyAudit(t *testing.T, path, organizationKey string) (audit.Report, error) {
	t.Helper()
	key, err := audit.NewKey(organizationKey)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return audit.Verify(file, key)
}

// auditEntry is what the tests read of an entry.
type auditEntry struct {
	Kind string
	Data struct{ URL, Role, Name, Origin, State, Field, Outcome, Rule, Decision, Reason string }
}

// String returns what an entry says, without ids and times.
func (e auditEntry) String() string {
	d := e.Data
	return strings.Join(slices.DeleteFunc([]string{e.Kind, d.URL, d.Role, d.Name, d.Origin, d.State, d.Field, d.Outcome, d.Rule, d.Decision, d.Reason}, func(s string) bool { return s == "" }), " ")
}

// auditEntries returns the entries of a log so far, each one once.
func auditEntries(t *testing.T, path string) (entries []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		if bytes.HasSuffix(line, []byte("\n")) { // it may just be written
			if e := decode[auditEntry](t, line).String(); !slices.Contains(entries, e) {
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// clickAt clicks an element of a page until the log has it: the script that reports clicks
// may follow the document a little later.
func (r *testWorker) clickAt(t *testing.T, conn *cdp.Conn, session, selector, path, want string) {
	t.Helper()
	var x, y float64
	position := evaluate(t, conn, session, `(e => { const r = e.getBoundingClientRect(); return (r.x + r.width / 2) + ' ' + (r.y + r.height / 2) })(document.querySelector('`+selector+`'))`)
	if _, err := fmt.Sscan(position, &x, &y); err != nil {
		t.Fatalf("%s: %v", position, err)
	}
	testenv.Eventually(t, want, func() bool {
		for _, kind := range []string{"mousePressed", "mouseReleased"} {
			if err := conn.Call(t.Context(), session, "Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}, nil); err != nil {
				t.Fatal(err)
			}
		}
		return slices.Contains(auditEntries(t, path), want)
	})
}

// TestAudit_LogsActionsInOrder drives a browser, also while it is recorded, and verifies its log.
func TestAudit_LogsActionsInOrder(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withAudit)
	for _, record := range []string{`[]`, `["events"]`} {
		t.Run(record, func(t *testing.T) {
			site, downloads := newSignInSite(t, r), newFileSite(t)
			s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"record":%s}}`, r.cloud.Profile(r.version), record))
			path := r.auditLog(s)
			conn := connectCDP(t, *s.WebSocketDebuggerUrl, nil)
			target, session := openPage(t, conn, site.URL+"/?token=query-secret#fragment-secret")
			has := func(want string) {
				t.Helper()
				testenv.Eventually(t, want, func() bool { return slices.Contains(auditEntries(t, path), want) })
			}
			has("navigation " + site.URL + "/")
			evaluate(t, conn, session, `new Promise(resolve => { const poll = () => document.readyState === 'complete' ? resolve() : setTimeout(poll, 5); poll() })`)
			r.clickAt(t, conn, session, "textarea", path, "click textbox Note")
			if err := conn.Call(t.Context(), session, "Input.insertText", map[string]any{"text": "typed-secret"}, nil); err != nil {
				t.Fatal(err)
			}
			fills{r.handovers(s)}.post(t, 200, map[string]any{"targetId": target})
			has("secret " + site.URL + " password")
			f := r.filesOf(t, s)
			f.download(downloads.URL + "/1000/invoice.pdf?token=query-secret")
			invoice := f.await("invoice.pdf", workerapi.LaunchFileStateComplete)
			has("download invoice.pdf " + downloads.URL + " complete")
			h := r.handovers(s)
			h.start(t)
			h.ask(t, "POST", "/handover/done", `{"note":"note-secret"}`, 200)
			r.clickAt(t, conn, session, "button", path, "click button Sign in")
			has("navigation " + site.URL + "/welcome")
			r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")

			want := []string{
				"start", "navigation " + site.URL + "/", "click textbox Note", "secret " + site.URL + " password", "download invoice.pdf " + downloads.URL + " in_progress",
				"download invoice.pdf " + downloads.URL + " complete", "handover", "handover done", "click button Sign in", "navigation " + site.URL + "/welcome", "end killed", "seal complete",
			}
			if got := slices.DeleteFunc(auditEntries(t, path), func(e string) bool { return !slices.Contains(want, e) }); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			report, err := verifyAudit(t, path, cloudtest.Key)
			if err != nil || report.Start.SessionID != s.Id || report.Start.LaunchID != s.LaunchId || report.State != audit.Complete {
				t.Errorf("got %+v, %v", report, err)
			}
			if _, err := verifyAudit(t, path, "svc_another"); !errors.Is(err, audit.ErrOtherKey) {
				t.Errorf("with another key: %v", err)
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(raw, []byte(`"sha256":"`+*invoice.Sha256+`"`)) {
				t.Errorf("the log has no checksum of the download:\n%s", raw)
			}
			secrets := []string{"query-secret", "fragment-secret", "typed-secret", "note-secret", "Solve the captcha", "my note", cloudtest.Key}
			for _, value := range site.values {
				secrets = append(secrets, value)
			}
			for _, secret := range secrets {
				if bytes.Contains(raw, []byte(secret)) {
					t.Errorf("the log contains %q:\n%s", secret, raw)
				}
			}
			t.Logf("%d entries, %d bytes", report.Entries, len(raw))
		})
	}
}

// TestAudit_LogsDecisions answers a question to a person.
func TestAudit_LogsDecisions(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withAudit)
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"startUrls":["http://a.test/start?token=secret"],"network":{"navigate":{"ask":["*.test"]}}}}`,
		r.cloud.Profile(r.version)))
	h := r.handovers(s)
	h.ask(t, "POST", "/handover/questions/"+h.questions(t, 1)[0].Id.String(), `{"answer":"refuse"}`, 200)
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	const want = "question http://a.test the rule navigate.ask: *.test of the launch refuse"
	if got := auditEntries(t, r.auditLog(s)); !slices.Contains(got, want) {
		t.Errorf("got %q", got)
	}
	if _, err := verifyAudit(t, r.auditLog(s), cloudtest.Key); err != nil {
		t.Error(err)
	}
}

// TestAudit_SealsWithKeyOfCaller launches over /launch with another key than the worker's.
func TestAudit_SealsWithKeyOfCaller(t *testing.T) {
	const callersKey = "svc_the-key-of-a-caller"
	r := startTestWorker(t, cloudtest.New(t), withAudit)
	r.cloud.AddKey(callersKey)
	conn := connectCDP(t, "ws"+strings.TrimPrefix(r.url, "http")+"/launch?profileId="+r.cloud.Profile(r.version).String(), http.Header{"X-Api-Key": {callersKey}})
	openPage(t, conn, "about:blank")
	_ = conn.Close()
	var logs []string
	testenv.Eventually(t, "the log is sealed", func() bool {
		logs, _ = filepath.Glob(filepath.Join(r.config.DataDir, "audit", "*.jsonl"))
		if len(logs) != 1 {
			return false
		}
		_, err := verifyAudit(t, logs[0], callersKey)
		return err == nil
	})
	if _, err := verifyAudit(t, logs[0], cloudtest.Key); !errors.Is(err, audit.ErrOtherKey) {
		t.Errorf("with the key of the worker: %v", err)
	}
}

// TestAudit_RefusesLaunchWithoutLog launches while logs cannot be created.
func TestAudit_RefusesLaunchWithoutLog(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withAudit)
	dir := filepath.Join(r.config.DataDir, "audit")
	if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	status, text := r.call(t.Context(), t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q}`, r.cloud.Profile(r.version)), "X-API-Key", workerKey)
	if got := decode[failure](t, text); status != 500 || !strings.Contains(got.Error.Message, "activity log") {
		t.Errorf("got %d %s", status, text)
	}
	testenv.Eventually(t, "the slot is released", func() bool { return len(r.cloud.Calls(cloudtest.End)) == 1 })
}

// TestAudit_WritesNothingByDefault launches without AUDIT.
func TestAudit_WritesNothingByDefault(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t), withFiles)
	r.session(t, "DELETE", "/sessions/"+r.launch(t).Id.String(), "")
	if _, err := os.Stat(filepath.Join(r.config.DataDir, "audit")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
