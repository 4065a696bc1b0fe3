// Package registrytest starts a real registry, Distribution, for tests.
package registrytest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
)

// The account of a registry with Basic authentication.
const (
	User     = "gate"
	Password = "upstream-password"
)

// passwordHash is bcrypt of Password.
const passwordHash = "$2a$04$627Y7f4z2NyNtmm58ZwxUOFKNiWS9fEdywS.4JU.z.Vcne3Ky49NK" //nolint:gosec // of a test registry

// Basic is the section of the configuration for Basic authentication.
func Basic(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, []byte(User+":"+passwordHash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("auth: {htpasswd: {realm: test, path: %q}}\n", file)
}

// Server is a running registry.
type Server struct {
	Host string      // address
	Dir  string      // with the stored images
	Log  testenv.Log // with the requests
	stop func()
}

// Stop stops the registry.
func (s *Server) Stop() { s.stop() }

// Start starts a registry for the test. The sections are added to its configuration, in
// YAML.
func Start(t testing.TB, sections ...string) *Server {
	t.Helper()
	s := &Server{Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort(t))), Dir: t.TempDir()}
	config := fmt.Sprintf("version: 0.1\nlog: {level: info}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q, secret: test}\n", s.Dir, s.Host)
	for _, section := range sections {
		config += section
	}
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(testenv.BuildTool(t, "registry", "registry"), "serve", file) //nolint:noctx // ended below
	server.Env = []string{"OTEL_TRACES_EXPORTER=none"}                                  // it would read REGISTRY_... of ours
	server.Stdout, server.Stderr = &s.Log, &s.Log
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(ended)
	}()
	s.stop = func() {
		_ = server.Process.Kill()
		<-ended
	}
	t.Cleanup(s.stop)
	testenv.Eventually(t, "the registry answers", func() bool {
		select {
		case <-ended:
			t.Fatalf("the registry ended:\n%s", s.Log.String())
		default:
		}
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", s.Host)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	return s
}
