package embedded

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/browser-svc/svc/db/pg"
)

const (
	database      = "svc" // also the name of the role that owns it
	superuser     = "postgres"
	initdbTimeout = 2 * time.Minute
)

// ensureCluster creates the cluster on the first start: in a temporary directory, which
// it then renames, so that an incomplete cluster is never used.
func (h *dataDir) ensureCluster(ctx context.Context, bin string) error {
	if h.exists() {
		return h.account.chownTree(h.cluster())
	}
	next := h.path("cluster.new")
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := os.Mkdir(next, 0o700); err != nil {
		return err
	}
	if err := h.account.chown(next); err != nil {
		return err
	}
	// UTF-8 rules if the C library has them; some have only C.
	err := h.initdb(ctx, bin, next, "C.UTF-8")
	if err != nil && strings.Contains(err.Error(), "invalid locale name") {
		err = h.initdb(ctx, bin, next, "C")
	}
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if err := os.Rename(next, h.cluster()); err != nil {
		return err
	}
	return syncDir(h.dir)
}

func (h *dataDir) initdb(ctx context.Context, bin, dir, locale string) error {
	ctx, cancel := context.WithTimeout(ctx, initdbTimeout)
	defer cancel()
	pwfile, err := h.passwordFor(h.account)
	if err != nil {
		return fmt.Errorf("hand over the password: %w", err)
	}
	defer os.Remove(pwfile)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata="+dir,
		"--username="+superuser, "--pwfile="+pwfile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale="+locale, "--lc-messages=C", "--data-checksums")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", environment(), h.sysProcAttr()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // initdb removes its files
	cmd.WaitDelay = 5 * time.Second
	waited, err := startProcess(cmd)
	if err == nil {
		err = <-waited
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", errors.Join(ctx.Err(), err), strings.TrimSpace(out.String()))
	}
	return nil
}

// passwordFor writes the password to a file that only the account can read, in the
// socket's directory.
func (h *dataDir) passwordFor(a account) (string, error) {
	path := filepath.Join(h.sockets, "password")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(h.password + "\n")
	return path, errors.Join(err, file.Close(), a.chown(path))
}

// version returns the major version of the cluster, or "" if it does not exist.
func (h *dataDir) version() (string, error) {
	text, err := os.ReadFile(filepath.Join(h.cluster(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// ensureDatabase creates the role svc, the roles that it uses, and its database if they
// do not exist. No role is a superuser, so that an SQL injection cannot access the
// machine.
func ensureDatabase(ctx context.Context, admin *sql.DB, password string) error {
	const knownRole = `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`
	steps := []struct{ name, exists, create string }{
		{
			database, knownRole,
			fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD %s`, database, pq.QuoteLiteral(password)),
		},
		{
			pg.AppRole, knownRole,
			fmt.Sprintf(`CREATE ROLE %s NOLOGIN ROLE %s`, pg.AppRole, database),
		},
		{
			pg.AllRole, knownRole,
			fmt.Sprintf(`CREATE ROLE %s NOLOGIN IN ROLE %s ROLE %s`, pg.AllRole, pg.AppRole, database),
		},
		{
			database, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`,
			fmt.Sprintf(`CREATE DATABASE %s OWNER %s TEMPLATE template0`, database, database),
		},
	}
	for _, step := range steps {
		var exists bool
		if err := admin.QueryRowContext(ctx, step.exists, step.name).Scan(&exists); err != nil {
			return fmt.Errorf("look for the database: %w", err)
		}
		if exists {
			continue
		}
		if _, err := admin.ExecContext(ctx, step.create); err != nil {
			return fmt.Errorf("create the database: %w", err)
		}
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
