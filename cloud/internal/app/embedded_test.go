package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/testenv"
)

// TestServe_RestartsEmbeddedPostgres kills the embedded PostgreSQL of a cloud: requests return
// 503 until it is restarted. When it cannot be restarted, the cloud ends.
func TestServe_RestartsEmbeddedPostgres(t *testing.T) {
	dataDir := testenv.PublicTempDir(t)
	e := &embeddedCloud{t: t, cluster: filepath.Join(dataDir, "postgres", "cluster"), done: make(chan error, 1)}
	config := Config{Host: "127.0.0.1", Port: testenv.FreePort(t), DataDir: dataDir}
	e.url = fmt.Sprintf("http://127.0.0.1:%d", config.Port)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { e.done <- Serve(ctx, config, slog.New(slog.DiscardHandler)) }()
	awaitHealth(t, config.Port, e.done)
	token := e.signUp()

	away := e.cluster + ".away" // it cannot be restarted without its cluster
	if err := os.Rename(e.cluster, away); err != nil {
		t.Fatal(err)
	}
	e.kill(away)
	for path, token := range map[string]string{"/v1/auth/session": token, "/v1/plans": "", "/health": "", "/readyz": ""} {
		testenv.Eventually(t, path+" returns 503", func() bool { // the last health check is shared for a second
			status, header, body := e.get(path, token)
			if status == http.StatusServiceUnavailable && (header.Get("Retry-After") == "" || !strings.Contains(body, "EXTERNAL_SERVICE_ERROR")) {
				t.Errorf("%s: Retry-After %q, %s", path, header.Get("Retry-After"), body)
			}
			return status == http.StatusServiceUnavailable
		})
	}
	if err := os.Rename(away, e.cluster); err != nil {
		t.Fatal(err)
	}
	for path, token := range map[string]string{"/v1/auth/session": token, "/v1/plans": "", "/health": "", "/readyz": ""} {
		testenv.Eventually(t, path+" returns 200", func() bool {
			status, _, body := e.get(path, token)
			if status != http.StatusOK && status != http.StatusServiceUnavailable {
				t.Fatalf("%s: %d %s", path, status, body)
			}
			return status == http.StatusOK
		})
	}

	if err := os.Remove(filepath.Join(e.cluster, "global", "pg_control")); err != nil {
		t.Fatal(err)
	}
	e.kill(e.cluster)
	if err := <-e.done; err == nil || !strings.Contains(err.Error(), "failed 7 times in a row and is not restarted again") || !strings.Contains(err.Error(), "pg_control") {
		t.Errorf("Serve returned %v", err)
	}
}

// embeddedCloud is a running cloud with an embedded PostgreSQL.
type embeddedCloud struct {
	t            *testing.T
	url, cluster string
	done         chan error
}

// signUp creates a user and returns the token of a session.
func (e *embeddedCloud) signUp() (token string) {
	e.t.Helper()
	answer, err := http.Post(e.url+"/v1/auth/sign-up", "application/json", strings.NewReader(`{"email":"ada@example.com","password":"correct horse battery","name":"Ada"}`))
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	var created cloudapi.SignInTokenResponse
	if err := json.NewDecoder(answer.Body).Decode(&created); err != nil || answer.StatusCode != http.StatusCreated {
		e.t.Fatalf("sign up: %d, %v", answer.StatusCode, err)
	}
	return created.Data.Token
}

func (e *embeddedCloud) get(path, token string) (status int, header http.Header, body string) {
	e.t.Helper()
	select {
	case err := <-e.done:
		e.t.Fatalf("Serve returned %v", err)
	default:
	}
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, e.url+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

// kill kills the postmaster of the cluster.
func (e *embeddedCloud) kill(cluster string) {
	e.t.Helper()
	text, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if err != nil {
		e.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		e.t.Fatal(err)
	}
}
