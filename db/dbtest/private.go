package dbtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/browser-svc/svc/db/embedded"
)

const (
	openTimeout = 3 * time.Minute // with an empty cache
	dirPrefix   = "svc-dbtest-run-"
)

// openServer returns the server of TEST_DATABASE_URL, or starts a private one.
func openServer() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if dsn := os.Getenv("TEST_DATABASE_URL"); dsn != "" {
		s, err := connect(ctx, dsn)
		if err != nil {
			return nil, err
		}
		return s, s.ensureTemplate(ctx)
	}
	return openPrivate(ctx)
}

// openPrivate starts a server on a copy of the cached cluster.
func openPrivate(ctx context.Context) (*server, error) {
	removeStaleDirs()
	dir, err := os.MkdirTemp(scratchDir(), dirPrefix)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // for root, the server runs as another user
		return nil, err
	}
	watch, err := startGuard(dir)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := copyCluster(ctx, data); err != nil {
		return nil, err
	}
	running, err := embedded.Start(ctx, options(data))
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(watch, running.Pid()); err != nil {
		return nil, fmt.Errorf("tell the guard: %w", err)
	}
	s, err := connect(ctx, running.AdminDSN())
	if err != nil {
		return nil, err
	}
	s.private = true
	return s, s.ensureTemplate(ctx)
}

// options disables durability for speed.
func options(data string) embedded.Options {
	return embedded.Options{DataDir: data, Settings: map[string]string{
		"fsync":              "off",
		"synchronous_commit": "off",
		"full_page_writes":   "off",
		"max_connections":    "300",
		"shared_buffers":     "64MB",
		"min_wal_size":       "32MB",
		"autovacuum_naptime": "1h",
		// Else each statement that reads a table without an index starts two processes.
		"max_parallel_workers_per_gather": "0",
	}}
}

// guardScript waits for the end of its input, which means that the test process has
// ended. Then it waits for the server, whose process ID it has read, and removes the
// directory.
const guardScript = `read -r pid; cat >/dev/null
if [ -n "$pid" ]; then
	i=0
	while grep -qs '^State:.[^ZX]' "/proc/$pid/status" && [ $i -lt 200 ]; do sleep 0.02; i=$((i+1)); done
	kill -9 "$pid" 2>/dev/null
fi
rm -rf "$1"`

// startGuard starts the guard of dir and returns its input. The input is a plain file
// descriptor, which the garbage collector does not close, so it stays open until the
// process ends.
func startGuard(dir string) (io.Writer, error) {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return nil, err
	}
	read := os.NewFile(uintptr(pipe[0]), "guard")
	defer read.Close()
	cmd := exec.Command("sh", "-c", guardScript, "dbtest-guard", dir) //nolint:noctx // it outlives every context, that is its point
	cmd.Stdin, cmd.Dir = read, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return descriptor(pipe[1]), nil
}

type descriptor int

func (d descriptor) Write(p []byte) (int, error) { return syscall.Write(int(d), p) }
