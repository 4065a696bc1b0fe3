// Program upgrade tests that adjacent releases of svc-cloud run together. It builds
// svc-cloud of an earlier commit and of the working tree, and replaces one by the other
// on one database, and back, while workers launch and end sessions on every replica. A
// request that fails is an error. See openapi/operations/UPGRADE.md.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/browser-svc/svc/db"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/scripts/children"
)

func main() {
	var revision string
	var phase time.Duration
	flag.StringVar(&revision, "from", "", "The earlier `COMMIT`; by default the last tag, or HEAD~1")
	flag.DurationVar(&phase, "phase", 10*time.Second, "The duration of the load in each phase")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, revision, phase); err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, revision string, phase time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "svc-upgrade-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	commit, err := build(ctx, revision, dir)
	if err != nil {
		return err
	}
	server, err := embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		return err
	}
	t := &upgradeTest{dir: dir, server: server, load: newLoad(), phaseTime: phase, environment: []string{
		"DATABASE_URL=" + server.DSN(), "SIGN_UP=open", "BILLING_SELF_SERVICE=true", "SHUTDOWN_DELAY=1s", "LOG_LEVEL=warn",
		"DATA_DIR=" + filepath.Join(dir, "cloud"), "SECRET_KEYS=1:" + base64.StdEncoding.EncodeToString(randomKey()),
	}}
	defer func() {
		if err = errors.Join(err, t.load.stop(), t.close()); err != nil {
			for _, name := range []string{"old", "new"} {
				fmt.Fprintf(os.Stderr, "The log of %s:\n%s\n", name, children.Tail(filepath.Join(dir, name+".log")))
			}
		}
	}()
	fmt.Printf("svc-cloud of %s (old) and of the working tree (new), %v a phase\n\n", commit, phase)
	return t.run(ctx)
}

func randomKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never returns an error
	return key
}

// build builds the programs old and new into dir, and describes the commit of old.
func build(ctx context.Context, revision, dir string) (commit string, err error) {
	if revision == "" {
		if revision, err = output(ctx, "git", "describe", "--tags", "--abbrev=0"); err != nil {
			revision = "HEAD~1"
		}
	}
	if commit, err = output(ctx, "git", "log", "-1", "--format=%h (%cs)", revision); err != nil {
		return "", err
	}
	root, err := output(ctx, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	source, archive := filepath.Join(dir, "source"), filepath.Join(dir, "source.tar")
	if err := os.Mkdir(source, 0o755); err != nil {
		return "", err
	}
	for _, command := range [][]string{
		{"git", "-C", root, "archive", "--output=" + archive, revision},
		{"tar", "-xf", archive, "-C", source},
		{"go", "build", "-C", source, "-o", filepath.Join(dir, "old"), "./cloud"},
		{"go", "build", "-C", root, "-o", filepath.Join(dir, "new"), "./cloud"},
	} {
		if _, err := output(ctx, command[0], command[1:]...); err != nil {
			return "", err
		}
	}
	return commit, nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	var complaint bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// upgradeTest is a database with one organization, and the replicas that use it.
type upgradeTest struct {
	dir         string
	server      *embedded.Server
	environment []string
	phaseTime   time.Duration
	load        *load
	replicas    []*replica
}

// replica is a running svc-cloud.
type replica struct {
	*children.Child
	url string
}

// run replaces the replicas under load. Each phase prints the number of requests.
func (t *upgradeTest) run(ctx context.Context) error {
	first, err := t.start(ctx, "old")
	if err != nil {
		return err
	}
	if err := t.signUp(ctx, first.url); err != nil {
		return err
	}
	t.load.add(first.url)
	t.load.start(ctx)
	for _, phase := range []struct {
		name string
		do   func() error
	}{
		{"old, on the old schema", func() error { return nil }},
		{"new starts beside old, and migrates", func() error { return t.begin(ctx, "new") }},
		{"old restarts on the new schema, beside new", func() error { return errors.Join(t.end("old"), t.begin(ctx, "old")) }},
		{"rollback: new ends, old alone on the new schema", func() error { return t.end("new") }},
		{"new again, old ends", func() error { return errors.Join(t.begin(ctx, "new"), t.end("old")) }},
	} {
		if err := t.phase(ctx, phase.name, phase.do); err != nil {
			return err
		}
	}
	if err := t.load.stop(); err != nil {
		return err
	}
	return t.check(ctx)
}

func (t *upgradeTest) phase(ctx context.Context, name string, do func() error) error {
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t.phaseTime):
	}
	version, err := t.schemaVersion(ctx)
	if err != nil {
		return err
	}
	requests, slowest, err := t.load.report()
	fmt.Printf("%-50s schema %d %7d requests, slowest %v\n", name, version, requests, slowest.Round(time.Millisecond))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if requests == 0 {
		return fmt.Errorf("%s: there was no request", name)
	}
	return nil
}

func (t *upgradeTest) schemaVersion(ctx context.Context) (int64, error) {
	pool, err := pg.Open(ctx, t.server.DSN(), pg.Options{MaxOpen: 1})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	schema, err := db.ReadSchema(ctx, pool.DB)
	return schema.Version, err
}

// start starts a replica of the program old or new.
func (t *upgradeTest) start(ctx context.Context, program string) (*replica, error) {
	port, err := children.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	url := "http://127.0.0.1:" + port
	child, err := children.Start(ctx, children.Program{
		Name: program, Path: filepath.Join(t.dir, program), Log: filepath.Join(t.dir, program+".log"), Health: url + "/readyz",
		Environment: append([]string{"HOST=127.0.0.1", "PORT=" + port}, t.environment...),
	})
	if child == nil {
		return nil, err
	}
	r := &replica{child, url}
	t.replicas = append(t.replicas, r)
	return r, err
}

// begin starts a replica and sends load to it.
func (t *upgradeTest) begin(ctx context.Context, program string) error {
	r, err := t.start(ctx, program)
	if err != nil {
		return err
	}
	t.load.add(r.url)
	return nil
}

// end takes a replica out of the load, as a load balancer does, and stops it.
func (t *upgradeTest) end(program string) error {
	for i, r := range t.replicas {
		if r.Name == program {
			t.load.remove(r.url)
			t.replicas = append(t.replicas[:i], t.replicas[i+1:]...)
			return r.Stop()
		}
	}
	return fmt.Errorf("%s does not run", program)
}

// check verifies that no slot is left and that the accounting is consistent.
func (t *upgradeTest) check(ctx context.Context) error {
	pool, err := pg.Open(ctx, t.server.DSN(), pg.Options{MaxOpen: 1, Role: pg.AllRole})
	if err != nil {
		return err
	}
	defer pool.Close()
	var left int
	if err := pool.GetContext(ctx, &left, `SELECT count(*) FROM license_slots WHERE released_at IS NULL`); err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d slots are left, although every session has ended", left)
	}
	command := exec.CommandContext(ctx, filepath.Join(t.dir, "new"), "restore-check")
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), t.environment...), os.Stdout, os.Stderr
	fmt.Println()
	return command.Run()
}

func (t *upgradeTest) close() error {
	var errs []error
	for _, r := range t.replicas {
		errs = append(errs, r.Stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(append(errs, t.server.Stop(ctx))...)
}

// signUp creates a user, an organization without limits, its key and a profile.
func (t *upgradeTest) signUp(ctx context.Context, url string) error {
	var answer struct{ Token, ID, Key string }
	for _, step := range []struct{ path, body string }{
		{"/v1/auth/sign-up", `{"email":"upgrade@example.com","password":"correct horse battery","name":"U"}`},
		{"/v1/organizations", `{"name":"Upgrade"}`},
		{"/v1/organizations/ID/api-keys", `{"name":"upgrade"}`},
		{"/v1/billing/checkout", `{"plan":"enterprise","returnUrl":"https://example.com/"}`},
		{"/v1/profiles", `{"name":"P","browserVersion":156,"proxy":{"server":"http://proxy.example.com:3128","username":"u","password":"p"}}`},
	} {
		err := post(ctx, url+strings.Replace(step.path, "ID", answer.ID, 1), answer.Token, step.body, &answer)
		if err != nil {
			return err
		}
	}
	return t.load.use(answer.Key, answer.ID)
}

// post sends a request and decodes the data of the answer.
func post(ctx context.Context, url, token, body string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("POST %s: %s: %s", request.URL.Path, answer.Status, text)
	}
	return json.Unmarshal(text, &struct{ Data any }{into})
}
