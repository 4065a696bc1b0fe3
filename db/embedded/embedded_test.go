package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/db/embedded"
	"github.com/browser-svc/svc/db/pg"
)

func TestStart_KeepsData(t *testing.T) {
	dir := dataDir(t)
	s := start(t, dir)
	db := open(t, s.DSN())
	exec(t, db, `CREATE TABLE kept (id int); INSERT INTO kept VALUES (1), (2)`)
	began := time.Now()
	stop(t, s)
	t.Logf("stop: %v", time.Since(began).Round(time.Millisecond))
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: %v", err)
	}
	awaitExit(t, dir, 0)
	if err := db.Ping(); !pg.IsUnavailable(err) {
		t.Errorf("ping of a stopped server: %v, want unavailable", err)
	}
	if n := count(t, open(t, start(t, dir).DSN())); n != 2 {
		t.Errorf("%d rows after the restart, want 2", n)
	}
}

func TestStart_SecureDefaults(t *testing.T) {
	dir := dataDir(t)
	s := start(t, dir)
	db := open(t, s.DSN())
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on",
		"server_encoding": "UTF8", "listen_addresses": "", "password_encryption": "scram-sha-256",
	} {
		if got := setting(t, db, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	var super bool
	if err := db.Get(&super, `SELECT usesuper FROM pg_user WHERE usename = current_user`); err != nil || super {
		t.Errorf("the application's role is a superuser: %v, %v", super, err)
	}
	for name, want := range map[string]os.FileMode{"password": 0o600, "lock": 0o600, "server.log": 0o600, "run": 0o700, "cluster": 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v, want %v", name, info.Mode().Perm(), err, want)
		}
	}
	wrong, err := url.Parse(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword("svc", "guess")
	if _, err := pg.Open(t.Context(), wrong.String(), pg.Options{}); err == nil {
		t.Error("a wrong password was accepted")
	}
}

func TestStart_RefusesSecondOwner(t *testing.T) {
	dir := dataDir(t)
	start(t, dir)
	_, err := embedded.Start(t.Context(), embedded.Options{DataDir: dir})
	if !errors.Is(err, embedded.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("second start: %v, want ErrInUse with our process id", err)
	}
}

func TestStart_LongPathUsesShortSocket(t *testing.T) {
	dir := filepath.Join(dataDir(t), strings.Repeat("long", 30))
	s := start(t, dir)
	exec(t, open(t, s.DSN()), `SELECT 1`)
	address, err := url.Parse(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	sockets := address.Query().Get("host")
	if strings.HasPrefix(sockets, dir) {
		t.Errorf("the socket is in %s, whose path is too long", sockets)
	}
	stop(t, s)
	if _, err := os.Stat(sockets); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s still exists after Stop: %v", sockets, err)
	}
}

func TestTCP_ListensOnLoopbackOnly(t *testing.T) {
	s, err := embedded.Start(t.Context(), embedded.Options{DataDir: dataDir(t), TCP: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background()) })
	socket, err := url.Parse(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	tcp := url.URL{Scheme: "postgres", User: socket.User, Host: "127.0.0.1:" + strconv.Itoa(s.Port()), Path: "/svc", RawQuery: "sslmode=disable"}
	for _, dsn := range []string{socket.String(), tcp.String()} {
		if got := setting(t, open(t, dsn), "listen_addresses"); got != "127.0.0.1" {
			t.Errorf("listen_addresses = %q", got)
		}
	}
}

func TestStart_ErrorHasServerLog(t *testing.T) {
	_, err := embedded.Start(t.Context(), embedded.Options{
		DataDir: dataDir(t), Settings: map[string]string{"shared_buffers": "nonsense"},
	})
	if err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Errorf("Start = %v, want the server's message", err)
	}
}

func TestStart_NamesInaccessibleDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root runs the server as another user: nothing to refuse")
		return
	}
	parent := t.TempDir()
	if err := os.Chmod(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(parent), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := embedded.Start(t.Context(), embedded.Options{DataDir: filepath.Join(parent, "data")})
	if err == nil || !strings.Contains(err.Error(), "cannot access the directory "+parent+" ") {
		t.Errorf("Start = %v, want an error that names %s", err, parent)
	}
}

func TestStart_RecreatesIncompleteCluster(t *testing.T) {
	dir := dataDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "cluster.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	exec(t, open(t, start(t, dir).DSN()), `SELECT 1`)
}

func TestStart_IgnoresStalePIDFile(t *testing.T) {
	dir := dataDir(t)
	s := start(t, dir)
	exec(t, open(t, s.DSN()), `CREATE TABLE kept (id int)`)
	pidFile := filepath.Join(dir, "cluster", "postmaster.pid")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	// As if the server had crashed, and its process ID had been reused by another program of
	// the same user.
	other := osexec.Command("sleep", "60")
	if os.Geteuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	reused := strings.Replace(string(text), strconv.Itoa(s.Pid()), strconv.Itoa(other.Process.Pid), 1)
	if err := os.WriteFile(pidFile, []byte(reused), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := count(t, open(t, start(t, dir).DSN())); n != 0 {
		t.Errorf("%d rows, want 0", n)
	}
}

func TestStart_CopyRunsBesideOriginal(t *testing.T) {
	dir, copied := dataDir(t), dataDir(t)
	stop(t, start(t, dir))
	if out, err := osexec.Command("cp", "-a", dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	original := open(t, start(t, dir).DSN())
	exec(t, original, `CREATE TABLE kept (id int)`)
	exec(t, open(t, start(t, copied).DSN()), `CREATE TABLE kept (id int)`)
	exec(t, original, `INSERT INTO kept VALUES (1)`)
}
