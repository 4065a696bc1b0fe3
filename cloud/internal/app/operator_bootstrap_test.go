package app

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/browser-svc/svc/db/dbtest"
)

// newBootstrapShell returns a shell on an empty database.
func newBootstrapShell(t *testing.T) shell {
	return shell{t, map[string]string{"DATABASE_URL": dbtest.NewDSN(t), "DATA_DIR": t.TempDir(), "LOG_LEVEL": "error"}}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantOneKey checks that the database has one user, and one organization with one
// key, which is the key in the file. It returns the key.
func (s shell) wantOneKey(dir string) string {
	s.t.Helper()
	var organizations []organizationView
	var users []userView
	s.read(&organizations, "organizations", "list")
	s.read(&users, "users", "list")
	if len(organizations) != 1 || organizations[0].Plan != "free" || len(users) != 1 || !users[0].EmailVerified {
		s.t.Fatalf("%+v, %+v", organizations, users)
	}
	key := readText(s.t, filepath.Join(dir, organizationKeyFile))
	var d organizationDetails
	s.read(&d, "organizations", "show", organizations[0].Slug)
	if len(d.Keys) != 1 || !strings.HasPrefix(key, d.Keys[0].Prefix) || !strings.HasSuffix(key, d.Keys[0].LastFour+"\n") {
		s.t.Errorf("%+v", d.Keys)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		s.t.Errorf("wrote %v", files)
	}
	return key
}

func TestBootstrap_CreatesUserOrganizationAndKeysOnce(t *testing.T) {
	sh, dir := newBootstrapShell(t), t.TempDir()
	sh.environ["LOG_LEVEL"] = "debug"
	status, out, logs := command(sh.environ, "", "bootstrap", dir, "--email", "Ada@example.com")
	if status != 0 || !strings.Contains(out, "Dashboard:  http://localhost:8080\nSign in as: ada@example.com\n") {
		t.Fatalf("%d %q %s", status, out, logs)
	}
	sh.environ["LOG_LEVEL"] = "error"
	key, workerKey := sh.wantOneKey(dir), readText(t, filepath.Join(dir, workerKeyFile))
	for _, secret := range []string{key, workerKey} {
		if len(secret) < 30 || strings.Contains(out+logs, strings.TrimSpace(secret)) {
			t.Errorf("a key of %d characters is printed or too short", len(secret))
		}
	}
	for _, file := range []string{organizationKeyFile, workerKeyFile} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}

	if out := sh.run("bootstrap", dir, "--email", "ada@example.com"); out != "The keys are in "+dir+" already.\n" {
		t.Errorf("%q", out)
	}
	if sh.wantOneKey(dir) != key || readText(t, filepath.Join(dir, workerKeyFile)) != workerKey {
		t.Error("the second run changed the keys")
	}

	if err := os.Remove(filepath.Join(dir, organizationKeyFile)); err != nil { // a lost volume
		t.Fatal(err)
	}
	sh.run("keys", "revoke", strings.TrimSpace(key))
	sh.run("bootstrap", dir, "--email", "ada@example.com")
	if sh.wantOneKey(dir) == key {
		t.Error("the revoked key was written")
	}
}

func TestBootstrap_ReplacesKeyOfAnotherDatabase(t *testing.T) {
	dir := t.TempDir()
	newBootstrapShell(t).run("bootstrap", dir)
	key, workerKey := readText(t, filepath.Join(dir, organizationKeyFile)), readText(t, filepath.Join(dir, workerKeyFile))
	sh := newBootstrapShell(t)
	sh.run("bootstrap", dir)
	if sh.wantOneKey(dir) == key || readText(t, filepath.Join(dir, workerKeyFile)) != workerKey {
		t.Error("the organization key was not replaced, or the worker key was")
	}
}

func TestBootstrap_CreatesOneKeyWhenRunConcurrently(t *testing.T) {
	sh, dir := newBootstrapShell(t), t.TempDir()
	sh.run("migrate")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if status, _, errs := command(sh.environ, "", "bootstrap", dir); status != 0 {
				t.Errorf("%d %s", status, errs)
			}
		})
	}
	all.Wait()
	sh.wantOneKey(dir)
}

func TestBootstrap_WorksBesideRunningCloud(t *testing.T) {
	h := newTestEnv(t, nil)
	sh, dir := h.shell(t), t.TempDir()
	sh.run("bootstrap", dir)
	k := &keyClient{t: t, h: h, secret: strings.TrimSpace(sh.wantOneKey(dir))}
	k.want("a request with the key", k.send("GET", "/v1/license/sessions", ""), 200)
	if link := sh.run("users", "reset-password", "you@example.com"); !resetLink.MatchString(link) {
		t.Errorf("%q", link)
	}
}

func TestBootstrap_LeavesOtherUsersAlone(t *testing.T) {
	h := newTestEnv(t, nil)
	sh, dir := h.shell(t), t.TempDir()
	h.newVisitor(t).signUp()
	if out := sh.run("bootstrap", dir, "--skip", "SVC_KEY is set"); out != "Nothing was created: SVC_KEY is set\n" {
		t.Errorf("%q", out)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
	sh.fails("none with the address eve@example.com: use the address of one", "bootstrap", dir, "--email", "eve@example.com")
	if out := sh.run("bootstrap", dir, "--email", "ada@example.com"); !strings.Contains(out, "Sign in as: ada@example.com\n") {
		t.Errorf("%q", out)
	}
	if out := sh.run("bootstrap", dir, "--email", "eve@example.com"); out != "The keys are in "+dir+" already.\n" {
		t.Errorf("%q", out)
	}
}

func TestBootstrap_RegistersKey(t *testing.T) {
	sh, dir := newBootstrapShell(t), t.TempDir()
	const key = "svc_abcdefghijklmnopqrstuvwxyz234567"
	for name, text := range map[string]string{organizationKeyFile: key + "\n", workerKeyFile: "wrk_test\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if out := sh.run("bootstrap", dir, "--register", "--email", "ada@example.com"); !strings.Contains(out, "Sign in as: ada@example.com\n") || strings.Contains(out, key) {
		t.Errorf("%q", out)
	}
	if got := sh.wantOneKey(dir); got != key+"\n" || readText(t, filepath.Join(dir, workerKeyFile)) != "wrk_test\n" {
		t.Error("the keys were changed")
	}
	if out := sh.run("bootstrap", dir, "--register"); !strings.Contains(out, "is valid already") {
		t.Errorf("%q", out)
	}
	sh.wantOneKey(dir)

	sh.run("keys", "revoke", key)
	sh.fails("was revoked: replace it by a new one", "bootstrap", dir, "--register", "--email", "ada@example.com")
}

func TestBootstrap_RefusesInvalidKey(t *testing.T) {
	sh, dir := newBootstrapShell(t), t.TempDir()
	sh.fails("no such file or directory", "bootstrap", dir, "--register")
	const key = "svc_abcdefghijklmnopqrstuvwxyz234567"
	for _, text := range []string{"", "svc_", strings.ToUpper(key), key + "a"} {
		if err := os.WriteFile(filepath.Join(dir, organizationKeyFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sh.fails("does not contain an organization key", "bootstrap", dir, "--register", "--email", "ada@example.com")
	}
	var users []userView
	if sh.read(&users, "users", "list"); len(users) != 0 {
		t.Errorf("users were created: %+v", users)
	}
}

func TestBootstrap_RefusesInvalidInput(t *testing.T) {
	sh := newBootstrapShell(t)
	sh.fails("is not an e-mail address", "bootstrap", t.TempDir(), "--email", "nobody")
	sh.fails("no such file or directory", "bootstrap", filepath.Join(t.TempDir(), "missing"))
}
