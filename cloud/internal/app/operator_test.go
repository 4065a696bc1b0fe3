package app

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/shared/testenv"
)

// command runs svc-cloud with these arguments.
func command(environ map[string]string, input string, words ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = newProgram(environ, strings.NewReader(input), &stdout, &stderr).Main(words)
	return status, stdout.String(), stderr.String()
}

// shell runs commands of an operator on a database.
type shell struct {
	t       *testing.T
	environ map[string]string
}

func (h *testEnv) shell(t *testing.T) shell {
	return shell{t, map[string]string{
		"DATABASE_URL": h.dsn, "DATA_DIR": h.config.DataDir, "PUBLIC_URL": h.url, "LOG_LEVEL": "error",
	}}
}

// run runs a command that must succeed, and returns its output.
func (s shell) run(words ...string) string {
	s.t.Helper()
	status, out, errs := command(s.environ, "", words...)
	if status != 0 {
		s.t.Fatalf("%v: %d %s", words, status, errs)
	}
	return out
}

// fails runs a command that must fail with this text.
func (s shell) fails(want string, words ...string) {
	s.t.Helper()
	status, out, errs := command(s.environ, "", words...)
	if status != 1 || out != "" || !strings.Contains(errs, want) {
		s.t.Errorf("%v: %d %q %q, want %q", words, status, out, errs, want)
	}
}

// read runs a command with --json and decodes its output.
func (s shell) read(into any, words ...string) {
	s.t.Helper()
	if out := s.run(append(words, "--json")...); json.Unmarshal([]byte(out), into) != nil {
		s.t.Fatalf("%v: the output is not JSON: %s", words, out)
	}
}

// events returns the audit log of a target as "action actor operator".
func (h *testEnv) events(t *testing.T, target string) (found []string) {
	t.Helper()
	err := h.all.SelectContext(t.Context(), &found, `
		SELECT concat_ws(' ', action, actor_type, CASE WHEN details->>'operator' = $2 THEN 'by name' END,
			CASE WHEN organization_id IS NULL THEN 'of the service' END)
		FROM audit_events WHERE target_id = $1 AND actor_type = 'operator' ORDER BY created_at, id`, target, operatorName())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantEvents(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got audit events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOrganizationsCommand_ListsShowsAssignsPlanAndSuspends(t *testing.T) {
	h := newTestEnv(t, nil)
	k, sh := h.newKeyClient(t), h.shell(t)
	list := sh.run("organizations", "list", "--search", k.slug)
	if want := k.org.String() + " " + k.slug + " free active 3 1 "; !strings.Contains(strings.Join(strings.Fields(list), " "), want) {
		t.Errorf("the list does not contain %q:\n%s", want, list)
	}
	var all []organizationView
	if sh.read(&all, "organizations", "list", "--search", "nobody has this"); len(all) != 0 {
		t.Errorf("found %+v", all)
	}
	k.limit(3)
	var d organizationDetails
	sh.read(&d, "organizations", "show", k.slug)
	if d.ID != k.org || d.Current != 1 || d.Reserved != 1 || len(d.Keys) != 1 || d.Keys[0].ID != k.key.ID || len(d.People) != 1 || d.People[0].Role != "owner" {
		t.Errorf("shown %+v", d)
	}
	if text := sh.run("organizations", "show", k.org.String()); !strings.Contains(text, "Plan:           free\n") || strings.Contains(text, k.secret) {
		t.Errorf("shown\n%s", text)
	}
	if out := sh.run("organizations", "plan", k.slug, "team"); !strings.Contains(out, " now has the plan team: profile limit ") {
		t.Errorf("%q", out)
	}
	sh.fails("already has this plan", "organizations", "plan", k.slug, "team")
	sh.fails(`there is no plan "teem": the plans are free, `, "organizations", "plan", k.slug, "teem")
	sh.fails(`no organization has the ID or slug "nowhere"; list them with svc-cloud organizations list`, "organizations", "show", "nowhere")

	k.want("before the suspension", k.ask(k.launch(uuid.Must(uuid.NewV7()))), http.StatusOK)
	sh.run("organizations", "suspend", k.slug, "--reason", "stolen card")
	k.want("a launch of a suspended organization", k.ask(k.launch(uuid.Must(uuid.NewV7()))), http.StatusPaymentRequired)
	k.want("a launch that was allowed before", k.ask(k.launch(k.session)), http.StatusOK)
	k.want("a heartbeat of what runs", k.send("POST", "/v1/license/sessions/heartbeat",
		`{"machineId": "worker-1", "bootId": "`+k.boot.String()+`", "seq": 1, "sessions": ["`+k.session.String()+`"]}`), http.StatusOK)
	if sh.read(&d, "organizations", "show", k.slug); d.Status != "suspended" || !d.Suspended || *d.ProfileLimit != 0 || d.Current != 2 {
		t.Errorf("suspended: %+v", d)
	}
	sh.fails("is already suspended", "organizations", "suspend", k.slug)
	sh.run("organizations", "resume", k.slug)
	k.want("after it", k.ask(k.launch(uuid.Must(uuid.NewV7()))), http.StatusOK)
	sh.fails("is not suspended", "organizations", "resume", k.slug)
	wantEvents(t, h.events(t, k.org.String()), "subscription.planAssigned operator by name",
		"organization.suspended operator by name", "organization.resumed operator by name")
}

var resetLink = regexp.MustCompile(`(\S+)/account/reset-password#token=([A-Za-z0-9_-]{43})\n`)

func TestUsersCommand_ListsDisablesAndResetsPassword(t *testing.T) {
	h := newTestEnv(t, nil)
	sh, ada := h.shell(t), h.newVisitor(t)
	id := ada.signUp().Data["user"].(map[string]any)["id"].(string)
	signIn := func(password string) map[string]any {
		return map[string]any{"email": "ada@example.com", "password": password}
	}
	ada.want(201, "POST", "/v1/organizations", map[string]any{"name": "Works"})
	if list := strings.Join(strings.Fields(sh.run("users", "list", "--search", "ADA@")), " "); !strings.Contains(list, id+" ada@example.com unverified 1 ") {
		t.Errorf("got the list %s", list)
	}

	if out := sh.run("users", "disable", "Ada@example.com"); out != "ada@example.com is disabled; 1 sessions ended\n" {
		t.Errorf("%q", out)
	}
	ada.want(401, "GET", "/v1/auth/session", nil) // ends immediately
	otherClient := h.newVisitor(t)
	otherClient.want(403, "POST", "/v1/auth/sign-in", signIn(password))
	otherClient.want(401, "POST", "/v1/auth/sign-in", signIn("not the password"))
	sh.fails("is disabled already", "users", "disable", id)
	sh.fails("Enable the user first", "users", "reset-password", id)
	sh.fails(`no user has the ID or e-mail address "eve"; list them with svc-cloud users list`, "users", "disable", "eve")
	sh.run("users", "enable", id)
	otherClient.want(200, "POST", "/v1/auth/sign-in", signIn(password))
	sh.fails("is not disabled", "users", "enable", id)

	found := resetLink.FindStringSubmatch(sh.run("users", "reset-password", "ada@example.com"))
	if found == nil || found[1] != h.url {
		t.Fatalf("no link to %s: %q", h.url, found)
	}
	reset := map[string]any{"token": found[2], "password": "purple monkey dishwasher"}
	otherClient.want(200, "POST", "/v1/auth/password/reset", reset)
	otherClient.want(400, "POST", "/v1/auth/password/reset", reset) // valid only once
	session := otherClient.want(200, "POST", "/v1/auth/sign-in", signIn("purple monkey dishwasher"))
	if session.Data["user"].(map[string]any)["emailVerified"] != false {
		t.Error("a link from the operator verified the address")
	}
	if out := sh.run("users", "verify", "ada@example.com"); out != "ada@example.com is verified\n" {
		t.Errorf("%q", out)
	}
	session = otherClient.want(200, "POST", "/v1/auth/sign-in", signIn("purple monkey dishwasher"))
	if session.Data["user"].(map[string]any)["emailVerified"] != true {
		t.Error("the address is not verified")
	}
	sh.fails("is verified already", "users", "verify", id)
	wantEvents(t, h.events(t, id),
		"user.disabled operator by name", "user.disabled operator by name of the service",
		"user.enabled operator by name", "user.enabled operator by name of the service",
		"user.passwordResetIssued operator by name", "user.passwordResetIssued operator by name of the service",
		"user.emailVerified operator by name", "user.emailVerified operator by name of the service")

	l := &lifecycle{t: t, env: h, secrets: map[string]string{}}
	h.parts.outbox.Transport = &l.mailbox
	var mailed struct{ MailedTo string }
	if sh.read(&mailed, "users", "reset-password", id, "--mail"); mailed.MailedTo != "ada@example.com" {
		t.Errorf("mailed %+v", mailed)
	}
	l.deliver()
	otherClient.want(200, "POST", "/v1/auth/password/reset", map[string]any{"token": l.mailedTo("ada@example.com", "Set a new password"), "password": password})
}

func TestUsersCommand_DisableEndsSignInInProgress(t *testing.T) {
	h := newTestEnv(t, nil)
	ada := h.newVisitor(t)
	ada.signUp()
	tx, err := h.all.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	tx.MustExec(`UPDATE users SET disabled_at = now(), credential_version = credential_version + 1`)
	tx.MustExec(`DELETE FROM auth_sessions`)
	answer := make(chan int, 1)
	go func() {
		answer <- h.newVisitor(t).ask("POST", "/v1/auth/sign-in", map[string]any{"email": "ada@example.com", "password": password}).status
	}()
	super := dbtest.Open(t, h.dsn, pg.Options{}) // sees locks of other roles
	testenv.Eventually(t, "the sign-in waits for the user", func() bool {
		var waiting bool
		err := super.GetContext(t.Context(), &waiting, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%auth_sessions%')`)
		return err == nil && waiting
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if status := <-answer; status != 401 {
		t.Errorf("sign-in: got %d, want 401", status)
	}
	ada.want(401, "GET", "/v1/auth/session", nil)
}

func TestKeysCommand_RevokesByIDAndByText(t *testing.T) {
	h := newTestEnv(t, nil)
	sh := h.shell(t)
	for _, byText := range []bool{false, true} {
		k := h.newKeyClient(t)
		word, input := k.key.ID.String(), ""
		if byText {
			word, input = "-", k.secret+"\n"
		}
		status, out, errs := command(sh.environ, input, "keys", "revoke", word)
		if status != 0 || !strings.HasPrefix(out, "Revoked "+k.key.Prefix) || strings.Contains(out+errs, k.secret) {
			t.Fatalf("%d %q %q", status, out, errs)
		}
		k.want("a launch with a revoked key", k.ask(k.launch(uuid.Must(uuid.NewV7()))), http.StatusUnauthorized)
		wantEvents(t, h.events(t, k.key.ID.String()), "apiKey.revoked operator by name")
		sh.fails("no active key has this ID or text", "keys", "revoke", k.key.ID.String())
	}
}

// TestOperatorCommands_WorkBesideRunningCloud runs commands on the PostgreSQL of a
// running cloud, and without a running cloud.
func TestOperatorCommands_WorkBesideRunningCloud(t *testing.T) {
	dir, port := testenv.PublicTempDir(t), testenv.FreePort(t)
	environ := map[string]string{"DATA_DIR": dir, "HOST": "127.0.0.1", "PORT": strconv.Itoa(port), "LOG_LEVEL": "error"}
	sh := shell{t, environ}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	config := Config{Host: "127.0.0.1", Port: port, DataDir: dir}
	go func() { done <- Serve(ctx, config, slog.New(slog.DiscardHandler)) }()
	awaitHealth(t, port, done)
	body := `{"email": "ada@example.com", "password": "` + password + `", "name": "Ada"}`
	answer, err := http.Post("http://127.0.0.1:"+strconv.Itoa(port)+"/v1/auth/sign-up", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Fatalf("sign-up: got %d, want 201", answer.StatusCode)
	}
	sh.run("users", "disable", "ada@example.com")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if out := sh.run("users", "list"); !strings.Contains(out, " disabled ") {
		t.Errorf("without a running cloud:\n%s", out)
	}
}

func TestOperatorCommands_Help(t *testing.T) {
	for _, words := range []string{
		"organizations list", "organizations show", "organizations plan", "organizations suspend", "organizations resume",
		"users list", "users reset-password", "users disable", "users enable", "keys revoke",
	} {
		status, out, errs := command(map[string]string{}, "", append(strings.Fields(words), "--help")...)
		if status != 0 || errs != "" || !strings.Contains(out, "Usage: svc-cloud "+words) || !strings.Contains(out, "--json") {
			t.Errorf("%s --help: %d %q %q", words, status, out, errs)
		}
	}
	status, _, errs := command(map[string]string{}, "", "organizations", "plan", "one")
	if status != 2 || !strings.Contains(errs, "missing argument PLAN") {
		t.Errorf("%d %q", status, errs)
	}
}
