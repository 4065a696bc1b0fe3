package app

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// profilesCLI runs `svc-worker profiles` on a data directory.
type profilesCLI struct {
	environ map[string]string
	store   *profiledata.Local
	id      uuid.UUID
}

func newProfilesCLI(t *testing.T) *profilesCLI {
	t.Helper()
	dataDir := t.TempDir()
	store, err := profiledata.OpenLocal(profiledata.LocalOptions{Dir: filepath.Join(dataDir, "profiles"), Versions: 3, MaxBytes: 1 << 20, Clock: clock.System{}})
	if err != nil {
		t.Fatal(err)
	}
	return &profilesCLI{environ: map[string]string{"DATA_DIR": dataDir, "LOG_LEVEL": "error"}, store: store, id: uuid.New()}
}

// profiles runs `svc-worker profiles` and returns its output with single spaces.
func (d *profilesCLI) profiles(words ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = program.Program[Config]{
		Name: "svc-worker", Environ: d.environ, Out: &stdout, Err: &stderr,
		Logging:  func(c Config) program.Logging { return c.Logging },
		Commands: []program.Command[Config]{profilesCommand(&stdout)},
	}.Main(append([]string{"profiles"}, words...))
	var lines []string
	for line := range strings.Lines(stdout.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return status, strings.Join(lines, "\n"), stderr.String()
}

// launch simulates a launch: it restores the data, checks that the data is found, and
// saves left.
func (d *profilesCLI) launch(t *testing.T, found, left string) {
	t.Helper()
	c, err := d.store.Acquire(d.id)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := c.Restore(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if text, _ := root.ReadFile("file"); string(text) != found {
		t.Errorf("the launch found %q, want %q", text, found)
	}
	if err := errors.Join(root.WriteFile("file", []byte(left), 0o600), c.Save(t.Context(), root)); err != nil {
		t.Fatal(err)
	}
}

func TestProfilesCommand_RollsBack(t *testing.T) {
	d := newProfilesCLI(t)
	if status, out, errs := d.profiles("list"); status != 0 || out != "PROFILE VERSIONS CURRENT SAVED CONTENT ON DISK" || errs != "" {
		t.Errorf("list of an empty store: %d %q %q", status, out, errs)
	}
	if _, err := os.Stat(filepath.Join(d.environ["DATA_DIR"], "profiles")); err == nil {
		t.Error("list created a directory")
	}
	d.launch(t, "", "one")
	d.launch(t, "one", "three")
	d.launch(t, "three", "fifteen")
	id := d.id.String()
	if status, out, _ := d.profiles("list"); status != 0 || !strings.Contains(out, "\n"+id+" 3 3 20") || !strings.Contains(out, "Z 7 B ") {
		t.Errorf("list: %d\n%s", status, out)
	}
	status, out, _ := d.profiles("versions", id)
	lines := strings.Split(out, "\n")
	if status != 0 || len(lines) != 4 || !strings.HasPrefix(lines[1], "3 20") || !strings.HasPrefix(lines[3], "1 20") || !strings.Contains(lines[3], "Z 3 B 1 ") || !strings.HasSuffix(lines[3], " good") {
		t.Errorf("versions: %d\n%s", status, out)
	}
	if status, out, errs := d.profiles("rollback", id); status != 0 || !strings.HasPrefix(out, "Version 2 of "+id+", saved 20") || !strings.HasSuffix(out, "is now the current version, number 4") {
		t.Errorf("rollback: %d %q %q", status, out, errs)
	}
	if status, out, errs := d.profiles("rollback", id, "--to", "1"); status != 0 || !strings.HasSuffix(out, "now the current version, number 5") {
		t.Errorf("rollback: %d %q %q", status, out, errs)
	}
	d.launch(t, "one", "seventeen")
	if status, out, errs := d.profiles("remove", id); status != 0 || out != "Removed the data of "+id {
		t.Errorf("remove: %d %q %q", status, out, errs)
	}
	d.launch(t, "", "again")
}

func TestProfilesCommand_ListsDamagedVersion(t *testing.T) {
	d := newProfilesCLI(t)
	d.launch(t, "", "one")
	d.launch(t, "one", "two")
	profile := filepath.Join(d.environ["DATA_DIR"], "profiles", d.id.String())
	chunks, _ := filepath.Glob(filepath.Join(profile, "1", strings.Repeat("?", 64)))
	if len(chunks) != 1 {
		t.Fatalf("got chunks %v", chunks)
	}
	for _, path := range []string{chunks[0], filepath.Join(profile, "2", "manifest")} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[20] ^= 1
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, out, _ := d.profiles("versions", d.id.String())
	if strings.Count(out, "the snapshot is damaged") != 2 || !strings.Contains(out, "\n2 - - 0 ") || strings.Contains(out, "good") {
		t.Errorf("versions:\n%s", out)
	}
	if status, out, _ := d.profiles("list"); status != 0 || !strings.Contains(out, d.id.String()+" 2 2 - - ") {
		t.Errorf("list:\n%s", out)
	}
}

func TestProfilesCommand_Errors(t *testing.T) {
	d := newProfilesCLI(t)
	d.launch(t, "", "one")
	held, err := d.store.Acquire(d.id)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	id, other := d.id.String(), uuid.NewString()
	for line, want := range map[string]string{
		"rollback " + id:                  "the data of " + id + " is in use: end the browser that uses it first",
		"remove " + id:                    "is in use",
		"versions " + other:               other + " has no data on this machine",
		"rollback " + other:               "has no data",
		"remove " + other:                 "has no data",
		"remove ../" + id:                 `"../` + id + `" is not a profile id`,
		"rollback " + id + " --to newest": "invalid value",
		"rollback " + id + " --to -1":     "must be a version number",
		"versions":                        "missing argument ID",
	} {
		if status, _, errs := d.profiles(strings.Fields(line)...); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %q", line, status, errs)
		}
	}
	held.Release()
	for line, want := range map[string]string{"rollback " + id: "no version before the current one", "rollback " + id + " --to 1": "version 1 is the current one", "rollback " + id + " --to 8": "no version 8"} {
		if status, _, errs := d.profiles(strings.Fields(line)...); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %q", line, status, errs)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(d.environ["DATA_DIR"], "profiles", "*")); len(left) != 1 {
		t.Errorf("the commands created directories: %v", left)
	}
}

// TestProfilesCommand_RefusesWithStore checks that no command changes local data as if it
// were that of OBJECT_STORE_URL.
func TestProfilesCommand_RefusesWithStore(t *testing.T) {
	d := newProfilesCLI(t)
	d.launch(t, "", "one")
	d.launch(t, "one", "two")
	d.environ["OBJECT_STORE_URL"] = "file://" + t.TempDir()
	id := d.id.String()
	for line, want := range map[string]string{
		"list": "GET /v1/profiles/{profileId}/data/versions", "rollback " + id: "POST /v1/profiles/{profileId}/data/versions/{versionId}/restore",
		"remove " + id: "DELETE /v1/profiles/{profileId}/data/versions/{versionId}", "versions " + id: "set OBJECT_STORE_URL and SVC_KEY",
		"gc": "set OBJECT_STORE_URL and SVC_KEY",
	} {
		if status, _, errs := d.profiles(strings.Fields(line)...); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %q", line, status, errs)
		}
	}
	for _, line := range []string{"list --local", "versions --local " + id, "rollback --local " + id, "remove --local " + id} {
		if status, out, errs := d.profiles(strings.Fields(line)...); status != 0 || !strings.Contains(out, id) && !strings.Contains(out, "good") {
			t.Errorf("%s: %d %q %q", line, status, out, errs)
		}
	}
}

func TestProfilesCommand_Help(t *testing.T) {
	for line, want := range map[string]string{
		"--help": "rollback", "rollback --help": "--to VERSION", "remove --help": "Usage: svc-worker profiles remove ID", "versions --help": "newest three versions",
	} {
		if status, out, _ := newProfilesCLI(t).profiles(strings.Fields(line)...); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d\n%s", line, status, out)
		}
	}
}
