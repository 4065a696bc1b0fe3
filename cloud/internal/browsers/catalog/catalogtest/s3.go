// Package catalogtest starts a real S3 server for tests of the catalog.
package catalogtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
)

const bucket = "builds"

// S3 starts a server with an empty bucket for the test and sets its credentials in the
// environment. It returns the bucket's URL for catalog.OpenStore, and the directory
// that contains the bucket's objects.
func S3(t *testing.T) (storeURL, dir string) {
	t.Helper()
	const access, secret = "svc-test", "a secret of the tests"
	t.Setenv("AWS_ACCESS_KEY_ID", access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	root := t.TempDir()
	dir = filepath.Join(root, bucket)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort(t)))
	var log strings.Builder
	server := exec.Command(testenv.BuildTool(t, "s3", "versitygw"), "--port", address, "--quiet", "posix", root) //nolint:noctx // ended below
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+access, "ROOT_SECRET_KEY="+secret)
	server.Stdout, server.Stderr = &log, &log
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var problem error
	ended := make(chan struct{})
	go func() {
		problem = server.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-ended
	})
	testenv.Eventually(t, "the S3 server answers", func() bool {
		select {
		case <-ended:
			t.Fatalf("the S3 server ended: %v\n%s", problem, log.String())
		default:
		}
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	return fmt.Sprintf("s3://%s?endpoint=http://%s&use_path_style=true&region=us-east-1", bucket, address), dir
}
