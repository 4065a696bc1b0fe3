package dbtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
)

func TestNew_TwentyFreshDatabases(t *testing.T) {
	first := time.Now()
	dbtest.New(t)
	t.Logf("the first, with the server's start: %v", time.Since(first).Round(time.Millisecond))
	var costs []time.Duration
	for range 20 {
		began := time.Now()
		db := dbtest.New(t)
		costs = append(costs, time.Since(began))
		var migrated bool
		if err := db.Get(&migrated, `SELECT EXISTS (SELECT FROM goose_db_version WHERE version_id > 0)`); err != nil || !migrated {
			t.Fatalf("migrated: %v, %v", migrated, err)
		}
		if _, err := db.Exec(`CREATE TABLE mine (id int)`); err != nil { // fails if the database is not new
			t.Fatal(err)
		}
	}
	slices.Sort(costs)
	t.Logf("a database: median %v, worst %v", costs[10].Round(100*time.Microsecond), costs[19].Round(100*time.Microsecond))
	if costs[10] > time.Second {
		t.Errorf("median time to create a database: %v", costs[10])
	}
}

func TestNew_ParallelTestsAreIsolated(t *testing.T) {
	for i := range 16 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if _, err := dbtest.New(t).Exec(`CREATE TABLE mine (id int)`); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNew_DropsDatabaseAfterTest(t *testing.T) {
	var dsn string
	t.Run("user", func(t *testing.T) { dsn = dbtest.NewDSN(t) })
	db, err := pg.Open(t.Context(), dsn, pg.Options{})
	if err == nil {
		db.Close()
		t.Error("the database still exists after its test")
	} else if !strings.Contains(err.Error(), "does not exist") {
		t.Error(err)
	}
}

// The two tests below run this binary again as a separate process. The variable makes
// the first test wait.
const waitVariable = "SVC_TEST_DBTEST_WAIT"

func rerunTest(t *testing.T, test string, environment ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.v", "-test.count=1", "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), environment...)
	return cmd
}

func TestKilledTest_LeaksNothing(t *testing.T) {
	if os.Getenv(waitVariable) != "" {
		var dir string
		if err := dbtest.New(t).Get(&dir, `SELECT current_setting('unix_socket_directories')`); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("\nready " + dir + "\n")
		io.Copy(io.Discard, os.Stdin) // until the process is killed
		return
	}
	cmd := rerunTest(t, t.Name(), waitVariable+"=1", "TEST_DATABASE_URL=")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	data := ""
	lines := bufio.NewScanner(stdout)
	for data == "" && lines.Scan() {
		if dir, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			data = filepath.Dir(dir)
		}
	}
	if _, err := os.Stat(data); err != nil {
		t.Fatalf("the data directory of the helper: %v (%v)", err, lines.Err())
	}
	if !runs(data) {
		t.Fatal("the helper's server was not found, so the test cannot check anything")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	began := time.Now()
	for {
		_, err := os.Stat(filepath.Dir(data))
		if errors.Is(err, os.ErrNotExist) && !runs(data) {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("10 s after the kill: server %v, directory %v", runs(data), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("nothing left after %v", time.Since(began).Round(time.Millisecond))
}

// runs reports whether a postmaster runs on the data directory.
func runs(data string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(lines, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "-D\x00"+data+"/")
	})
}

func TestExternalServer_IsUsedAndCleaned(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := embedded.Start(t.Context(), embedded.Options{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(context.Background()) })
	out, err := rerunTest(t, "TestNew_TwentyFreshDatabases", "TEST_DATABASE_URL="+server.AdminDSN()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var left []string
	admin := dbtest.Open(t, server.AdminDSN(), pg.Options{})
	if err := admin.Select(&left, `SELECT datname FROM pg_database WHERE datname NOT IN ('postgres', 'svc', 'template0', 'template1')`); err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || !strings.HasPrefix(left[0], "svc_template_") {
		t.Errorf("got databases %v, want only the template", left)
	}
}
