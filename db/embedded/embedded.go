// Package embedded runs a private PostgreSQL server with its data in a directory of
// the caller. It needs only the PostgreSQL programs. The server listens on a Unix
// socket by default, is restarted when it exits unexpectedly, and does not outlive this
// process.
package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/pg"
)

// startTimeout limits a start, including crash recovery.
const startTimeout = 5 * time.Minute

// Options configures the server. Only DataDir is required.
type Options struct {
	DataDir  string            // created on the first start
	BinDir   string            // directory of postgres and initdb; default: FindBin
	Logger   *slog.Logger      // default: none
	TCP      bool              // also listen on a free port of 127.0.0.1
	Settings map[string]string // override the PostgreSQL settings
}

// Server is a running PostgreSQL.
type Server struct {
	dataDir  *dataDir
	logger   *slog.Logger
	bin      string            // directory of the programs
	settings map[string]string // override the PostgreSQL settings
	port     int
	tcp      bool
	current  atomic.Pointer[postmaster] // nil before the first start

	stopping context.Context // ends with Stop
	stop     context.CancelFunc
	done     chan struct{}
	err      error // set before done is closed
	stopOnce sync.Once
	stopErr  error
}

// Start starts the server and returns when it accepts connections. The first start
// creates the cluster (UTF-8, data checksums) and the database svc. After a crash,
// Start stops a leftover server of the same directory, and PostgreSQL recovers its
// data.
//
// A data directory can be used by one process at a time; otherwise Start returns
// ErrInUse. ErrNotInstalled means that PostgreSQL is not installed. If this process
// runs as root, the server runs as the user postgres or nobody, which must be able
// to access the directory. Canceling ctx after Start does not stop the server. It
// stops with Stop, or when this process dies.
//
// If the server exits unexpectedly, it is restarted at the same address, and PostgreSQL
// recovers its data; meanwhile connections fail. See Done.
func Start(ctx context.Context, opts Options) (*Server, error) {
	began := time.Now()
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	home, err := openDataDir(opts.DataDir)
	if err != nil {
		return nil, fmt.Errorf("embedded database: %w", err)
	}
	s := &Server{dataDir: home, logger: logger, settings: opts.Settings, port: 5432, tcp: opts.TCP, done: make(chan struct{})}
	s.stopping, s.stop = context.WithCancel(context.Background())
	if err := s.start(ctx, opts.BinDir); err != nil {
		_ = s.shutDown(ctx) // the first error is more specific
		home.close()
		return nil, fmt.Errorf("embedded database: %w", err)
	}
	logger.InfoContext(ctx, "embedded database started", "pid", s.Pid(), "dataDir", home.dir, "duration", time.Since(began))
	go s.supervise()
	return s, nil
}

func (s *Server) start(ctx context.Context, bin string) (err error) {
	if err := s.dataDir.stopLeftovers(ctx); err != nil {
		return err
	}
	if s.bin, err = s.dataDir.findBin(ctx, bin); err != nil {
		return err
	}
	if err := s.dataDir.makeSocketDir(); err != nil {
		return fmt.Errorf("create the socket directory: %w", err)
	}
	if err := s.dataDir.ensureCluster(ctx, s.bin); err != nil {
		return fmt.Errorf("create the cluster: %w", err)
	}
	if s.tcp {
		if s.port, err = freePort(); err != nil {
			return err
		}
	}
	return s.run(ctx)
}

func (h *dataDir) findBin(ctx context.Context, bin string) (string, error) {
	if bin != "" {
		return bin, nil
	}
	major, err := h.version()
	if err != nil {
		return "", fmt.Errorf("read the cluster's version: %w", err)
	}
	return FindBin(ctx, major)
}

// run starts the postmaster and returns when it accepts connections. No process of an
// earlier postmaster may run.
func (s *Server) run(ctx context.Context) error {
	s.dataDir.dropStalePid()
	log, err := s.dataDir.openLog()
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), s.arguments()...) //nolint:noctx // Stop ends it, in order
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", environment(), s.dataDir.sysProcAttr()
	waited, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	started := &postmaster{cmd: cmd, exited: make(chan struct{})}
	s.current.Store(started)
	go func() {
		<-waited //nolint:errcheck // ProcessState says how
		close(started.exited)
	}()
	return s.waitReady(ctx, started)
}

// arguments returns the complete configuration; the files of initdb are unchanged.
// Errors are logged without values. Dynamic shared memory is in files of the
// cluster, which the next start removes after a crash.
func (s *Server) arguments() []string {
	all := map[string]string{
		"unix_socket_directories": s.dataDir.sockets,
		"unix_socket_permissions": "0700",
		"listen_addresses":        "",
		"port":                    strconv.Itoa(s.port),
		"cluster_name":            s.dataDir.tag,
		"max_connections":         "200",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_checkpoints":         "off",
		"log_error_verbosity":     "terse",
		"log_min_error_statement": "panic",
		"logging_collector":       "off",

		"dynamic_shared_memory_type": "mmap",
	}
	if s.tcp {
		all["listen_addresses"] = "127.0.0.1"
	}
	maps.Copy(all, s.settings)
	args := []string{"-D", s.dataDir.cluster()}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", key+"="+all[key])
	}
	return args
}

// waitReady waits until the server answers, and creates the database.
func (s *Server) waitReady(ctx context.Context, started *postmaster) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-started.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	admin, err := s.openAdmin(ctx)
	if err == nil {
		err = ensureDatabase(ctx, admin.DB, s.dataDir.password)
		admin.Close()
	}
	if err == nil {
		return nil
	}
	select {
	case <-started.exited:
		return s.exitError(started)
	default:
		return fmt.Errorf("%w; the server's log ends with:\n%s", err, s.dataDir.logTail())
	}
}

func (s *Server) openAdmin(ctx context.Context) (*sqlx.DB, error) {
	return pg.Open(ctx, s.AdminDSN(), pg.Options{MaxOpen: 1, Wait: startTimeout})
}

// DSN returns the postgres:// URL of the database svc for its owner, with the
// password. It works with lib/pq, psql and pg_dump.
func (s *Server) DSN() string { return s.dsn(database, database) }

// AdminDSN returns the URL of the maintenance database for the superuser.
func (s *Server) AdminDSN() string { return s.dsn(superuser, superuser) }

func (s *Server) dsn(role, database string) string {
	query := url.Values{"host": {s.dataDir.sockets}, "sslmode": {"disable"}}
	if s.port != 5432 {
		query.Set("port", strconv.Itoa(s.port))
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, s.dataDir.password), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}

// Done is closed when the server is not restarted any more: it failed too often, see Err,
// or Stop was called.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why the server is not restarted any more, with the end of its log; nil
// if Stop was called or if it runs.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Pid is the process id of the postmaster, which changes with a restart.
func (s *Server) Pid() int { return s.current.Load().cmd.Process.Pid }

// freePort returns a port of 127.0.0.1 that is currently free.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}
