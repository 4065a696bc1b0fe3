package app

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
)

// checkedCloud is a cloud with one row of everything that restore-check checks.
type checkedCloud struct {
	*testEnv
	keys  *keyClient
	shell shell
}

func newCheckedCloud(t *testing.T, dsn string) checkedCloud {
	t.Helper()
	h := newTestEnv(t, map[string]string{"DATABASE_URL": dsn, "SECRET_KEYS": "1:" + base64.StdEncoding.EncodeToString(make([]byte, 32))})
	k := h.newKeyClient(t)
	k.limit(5)
	k.want("a launch of a spec", k.ask(k.launchOf(uuid.Must(uuid.NewV7()), `"spec": {"browserVersion": 156}`)), http.StatusOK)
	v := newTenant(cheapHash(t))
	h.all.MustExec(v.fill(accessSQL))
	h.all.MustExec(`DELETE FROM webhook_endpoints`) // its secret is not encrypted
	token := h.signIn(t, v, "owner")
	// A proxy password, a client certificate, a secret, a webhook secret, an idempotency answer and a queued mail.
	for _, request := range []struct{ path, body string }{
		{"/v1/profiles", `{"name": "P", "browserVersion": 156, "proxy": {"server": "http://proxy.example.com:3128", "username": "u", "password": "p"}, "clientCertificates": [` + newClientCertificate(t).json() + `]}`},
		{"/v1/secrets", `{"name": "shop", "password": "p", "origins": ["https://shop.example.com"]}`},
		{"/v1/webhooks/endpoints", `{"url": "https://hooks.example.com"}`},
		{"/v1/organizations/" + v["organizationId"] + "/members/invite", `{"email": "someone@example.com", "role": "member"}`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+request.path, strings.NewReader(request.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Idempotency-Key": {uuid.NewString()}}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			t.Fatalf("POST %s: %s", request.path, answer.Status)
		}
	}
	k.want("a key of profile data", k.send(http.MethodPost, "/v1/profiles/"+k.profile.String()+"/data/lease",
		`{"sessionId": "`+uuid.NewString()+`", "machineId": "worker-1", "readOnly": true}`), http.StatusOK)
	sh := h.shell(t)
	sh.environ["SECRET_KEYS"] = h.config.SecretKeys
	return checkedCloud{h, k, sh}
}

// restoreCheck runs svc-cloud restore-check and returns the checks by name.
func (s shell) restoreCheck(words ...string) (status int, byName map[string]check) {
	s.t.Helper()
	status, out, errs := command(s.environ, "", append([]string{"restore-check", "--json"}, words...)...)
	var all checks
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		s.t.Fatalf("restore-check: %d %q %q", status, out, errs)
	}
	byName = map[string]check{}
	for _, each := range all {
		byName[each.Name] = each
	}
	return status, byName
}

// wantFailure runs the check and wants that only the named check fails.
func (s shell) wantFailure(name, detail string) {
	s.t.Helper()
	status, found := s.restoreCheck()
	for _, each := range found {
		if each.OK == (each.Name == name) || each.OK != (each.Failed == 0) && each.Name != "schema version" {
			s.t.Errorf("unexpected result %+v, wanted a failure of %s only", each, name)
		}
	}
	if status != 1 || !strings.Contains(found[name].Detail, detail) {
		s.t.Errorf("status %d, %s: %q, want %q", status, name, found[name].Detail, detail)
	}
}

func TestRestoreCheck_FindsEachInconsistency(t *testing.T) {
	h := newCheckedCloud(t, dbtest.NewDSN(t))
	status, found := h.shell.restoreCheck()
	for name, each := range found {
		if !each.OK || each.Checked == 0 && name != "schema version" {
			t.Errorf("a valid database: %+v", each)
		}
	}
	if status != 0 || len(found) != 12 {
		t.Fatalf("a valid database: status %d, %d checks", status, len(found))
	}
	if text := h.shell.run("restore-check"); !regexp.MustCompile(`(?m)^CHECK +RESULT +CHECKED +FAILED +DETAIL\nschema version +ok +0 +0 +version \d`).MatchString(text) {
		t.Errorf("the table:\n%s", text)
	}
	status, out, errs := command(h.shell.environ, "", "restore-check", "--timeout", "1ns")
	if status != 1 || out != "" || !strings.Contains(errs, "not finished after 1ns: see --timeout") {
		t.Errorf("a short deadline: %d %q %q", status, out, errs)
	}

	org := h.keys.org.String()
	for _, test := range []struct{ name, corrupt, repair, detail string }{
		{"license counters equal the slots",
			`UPDATE license_org SET in_use = in_use + 3 WHERE organization_id = '{org}'`,
			`UPDATE license_org SET in_use = in_use - 3 WHERE organization_id = '{org}'`,
			"organization {org} counts 5, but has 2 live slots"},
		{"slots have an organization",
			`INSERT INTO license_slots (id, organization_id, session_id, machine_id, state, reserved_at, lease_until)
				VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'lost', 'reserved', now(), now())`,
			`DELETE FROM license_slots WHERE machine_id = 'lost'`, ""},
		{"organizations have a counter",
			`INSERT INTO organizations (id, name, slug, created_at) VALUES (gen_random_uuid(), 'x', 'uncounted', now())`,
			`DELETE FROM organizations WHERE slug = 'uncounted'`, ""},
		{"ephemeral profiles have a session",
			`INSERT INTO profiles (id, organization_id, name, ephemeral, created_at, updated_at) VALUES (gen_random_uuid(), '{org}', 'lost', true, now(), now())`,
			`DELETE FROM profiles WHERE name = 'lost'`, ""},
		{"proxy passwords can be decrypted",
			`UPDATE profiles SET proxy_secret = set_byte(proxy_secret, 0, 9) WHERE proxy_secret IS NOT NULL`,
			`UPDATE profiles SET proxy_secret = set_byte(proxy_secret, 0, 1) WHERE proxy_secret IS NOT NULL`,
			"unknown key 9"},
		{"client certificates can be decrypted", `UPDATE profiles SET client_certificate_secret = set_byte(client_certificate_secret, 0, 9) WHERE client_certificate_secret IS NOT NULL`,
			`UPDATE profiles SET client_certificate_secret = set_byte(client_certificate_secret, 0, 1) WHERE client_certificate_secret IS NOT NULL`, "unknown key 9"},
		{"profile data keys can be decrypted",
			`UPDATE profile_data_keys SET key_secret = set_byte(key_secret, 0, 9)`,
			`UPDATE profile_data_keys SET key_secret = set_byte(key_secret, 0, 1)`,
			"unknown key 9"},
		{"passwords and TOTP seeds of secrets can be decrypted",
			`UPDATE secrets SET password_secret = set_byte(password_secret, 0, 9)`,
			`UPDATE secrets SET password_secret = set_byte(password_secret, 0, 1)`,
			"unknown key 9"},
		{"webhook secrets can be decrypted",
			`UPDATE webhook_endpoints SET secret = set_byte(secret, 0, 9)`,
			`UPDATE webhook_endpoints SET secret = set_byte(secret, 0, 1)`,
			"unknown key 9"},
		{"queued mail can be decrypted",
			`UPDATE mail_outbox SET encrypted_text = set_byte(encrypted_text, 14, get_byte(encrypted_text, 14) # 1)`,
			`UPDATE mail_outbox SET encrypted_text = set_byte(encrypted_text, 14, get_byte(encrypted_text, 14) # 1)`,
			"the secret can't be decrypted"},
		{"stored answers can be decrypted",
			`UPDATE idempotency_keys SET answer = set_byte(answer, 14, get_byte(answer, 14) # 1)`,
			`UPDATE idempotency_keys SET answer = set_byte(answer, 14, get_byte(answer, 14) # 1)`,
			"the secret can't be decrypted"},
	} {
		fill := strings.NewReplacer("{org}", org)
		h.all.MustExec(fill.Replace(test.corrupt))
		h.shell.wantFailure(test.name, fill.Replace(test.detail))
		h.all.MustExec(fill.Replace(test.repair))
	}
	if status, found := h.shell.restoreCheck(); status != 0 {
		t.Errorf("all inconsistencies removed: %+v", found)
	}
}

func TestRestoreCheck_RepairsCountersOnRequestOnly(t *testing.T) {
	h := newCheckedCloud(t, dbtest.NewDSN(t))
	h.all.MustExec(`UPDATE license_org SET in_use = in_use + 3 WHERE organization_id = $1`, h.keys.org)
	h.shell.wantFailure("license counters equal the slots", "--repair corrects it")
	status, found := h.shell.restoreCheck("--repair")
	if c := found["license counters equal the slots"]; status != 0 || !c.OK || c.Detail != "1 repaired" {
		t.Errorf("with --repair: status %d, %+v", status, c)
	}
	if status, _ := h.shell.restoreCheck(); status != 0 {
		t.Errorf("after the repair: status %d", status)
	}
}

func TestRestoreCheck_NeedsTheKeysOfTheBackup(t *testing.T) {
	h := newCheckedCloud(t, dbtest.NewDSN(t))
	h.shell.environ["SECRET_KEYS"] = "1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 32)))
	for _, want := range []string{"the secret can't be decrypted", "SECRET_KEYS is not set, and "} {
		status, found := h.shell.restoreCheck()
		for _, name := range []string{"proxy passwords can be decrypted", "client certificates can be decrypted", "profile data keys can be decrypted", "passwords and TOTP seeds of secrets can be decrypted", "webhook secrets can be decrypted", "queued mail can be decrypted", "stored answers can be decrypted"} {
			if c := found[name]; status != 1 || c.OK || c.Failed != c.Checked || !strings.Contains(c.Detail, want) {
				t.Errorf("status %d, %+v, want %q", status, c, want)
			}
		}
		delete(h.shell.environ, "SECRET_KEYS")
	}
	if _, err := os.Stat(secretPath(h.config)); err == nil {
		t.Error("restore-check created a key")
	}
}

func TestRestoreCheck_ChecksTheSchemaFirst(t *testing.T) {
	dsn := dbtest.NewEmptyDSN(t)
	sh := shell{t, map[string]string{"DATABASE_URL": dsn, "DATA_DIR": t.TempDir(), "LOG_LEVEL": "error"}}
	sh.wantFailure("schema version", "the database has no schema")
	sh.run("migrate")
	if status, found := sh.restoreCheck(); status != 0 {
		t.Errorf("an empty database: %+v", found)
	}
	owner := dbtest.Open(t, dsn, pg.Options{})
	owner.MustExec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	if status, found := sh.restoreCheck(); status != 0 {
		t.Errorf("a newer, compatible schema: %+v", found)
	}
	owner.MustExec(`UPDATE schema_compatibility SET oldest_version = 99999`)
	sh.wantFailure("schema version", "run a newer release")
}

// TestRestoreCheck_PassesAfterDumpAndRestore follows BACKUP.md: it dumps the database of
// a cloud in use, and restores it on another server, which lacks the roles.
func TestRestoreCheck_PassesAfterDumpAndRestore(t *testing.T) {
	source, target := startServer(t), startServer(t)
	if status, _, errs := command(map[string]string{"DATABASE_URL": source.DSN(), "LOG_LEVEL": "error"}, "", "migrate"); status != 0 {
		t.Fatal(errs)
	}
	h := newCheckedCloud(t, source.DSN())
	dump := filepath.Join(t.TempDir(), "svc.dump")
	tool(t, "pg_dump", "--format=custom", "--file="+dump, "--dbname="+adminDSN(t, source))

	admin := dbtest.Open(t, target.AdminDSN(), pg.Options{})
	for _, drop := range []string{"DATABASE svc", "ROLE svc_all", "ROLE svc_app"} {
		admin.MustExec("DROP " + drop)
	}
	admin.MustExec("CREATE DATABASE svc OWNER svc")
	admin.MustExec(strings.ReplaceAll(rolesInBackupDocument(t), "CURRENT_USER", "svc"))
	tool(t, "pg_restore", "--exit-on-error", "--no-owner", "--dbname="+target.DSN(), dump)

	h.shell.environ["DATABASE_URL"] = target.DSN()
	status, found := h.shell.restoreCheck()
	for name, each := range found {
		if !each.OK || each.Checked == 0 && name != "schema version" {
			t.Errorf("after the restore: %+v", each)
		}
	}
	if status != 0 || len(found) != 12 {
		t.Errorf("after the restore: status %d, %d checks", status, len(found))
	}
	// The restored cloud continues: the session still has its slot.
	restored := newTestEnv(t, map[string]string{"DATABASE_URL": target.DSN(), "SECRET_KEYS": h.config.SecretKeys})
	h.keys.h = restored
	h.keys.want("a launch that was allowed before the backup", h.keys.ask(h.keys.launch(h.keys.session)), http.StatusOK)
	if status, _ := h.shell.restoreCheck(); status != 0 {
		t.Errorf("in use again: status %d", status)
	}
}

// startServer starts a PostgreSQL server for the test.
func startServer(t *testing.T) *embedded.Server {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the server's user must access it
		t.Fatal(err)
	}
	server, err := embedded.Start(t.Context(), embedded.Options{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return server
}

// adminDSN returns the URL of the service's database for the superuser.
func adminDSN(t *testing.T, server *embedded.Server) string {
	t.Helper()
	address, err := url.Parse(server.AdminDSN())
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/svc"
	return address.String()
}

// rolesInBackupDocument returns the statements that BACKUP.md names for a new server.
func rolesInBackupDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../openapi/operations/BACKUP.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("BACKUP.md has no block of SQL")
	}
	return string(block[1])
}

// tool runs a program of PostgreSQL.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	bin, err := embedded.FindBin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
