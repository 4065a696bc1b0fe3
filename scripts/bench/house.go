package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// house is a cloud and a worker of this run's own, with an organization that
// may launch and a profile.
type house struct {
	dir           string
	cloud, worker *child
	cloudURL      string
	workerURL     string
	key, profile  string // the worker key, the profile's id
}

type child struct {
	cmd  *exec.Cmd
	done chan struct{}
	log  string
}

const readyTimeout = 60 * time.Second

func open(ctx context.Context) (_ *house, err error) {
	dir, err := os.MkdirTemp("", "svc-bench-")
	if err != nil {
		return nil, err
	}
	h := &house{dir: dir, key: "wrk_" + strings.ToLower(rand.Text())}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // browsers run as users of their own
		return nil, err
	}
	for _, program := range []string{"cloud", "worker"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "svc-"+program), "./"+program)
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build ./%s: %w\n%s", program, err, out)
		}
	}
	if h.cloud, h.cloudURL, err = h.start(ctx, "cloud"); err != nil {
		return nil, err
	}
	organizationKey, err := h.signUp(ctx)
	if err != nil {
		return nil, err
	}
	h.worker, h.workerURL, err = h.start(ctx, "worker", "SVC_CLOUD_URL="+h.cloudURL, "SVC_KEY="+organizationKey, "API_KEY="+h.key)
	return h, err
}

// start starts a program on a port of its own and waits until it is ready.
func (h *house) start(ctx context.Context, name string, environment ...string) (*child, string, error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	c := &child{cmd: exec.Command(filepath.Join(h.dir, "svc-"+name)), done: make(chan struct{}), log: filepath.Join(h.dir, name+".log")} //nolint:noctx // it is ended by a signal, in order
	log, err := os.Create(c.log)
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	c.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "HOST=127.0.0.1", "PORT=" + port, "DATA_DIR=" + filepath.Join(h.dir, name),
	}, environment...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return nil, "", err
	}
	go func() { _ = c.cmd.Wait(); close(c.done) }()
	address := "http://127.0.0.1:" + port
	return c, address, c.ready(ctx, address+"/health")
}

func (c *child) ready(ctx context.Context, health string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if err := call(ctx, http.MethodGet, health, nil, nil, nil); err == nil {
			return nil
		}
		select {
		case <-c.done:
			said, _ := os.ReadFile(c.log)
			return fmt.Errorf("%s ended: %s\n%s", c.cmd.Path, c.cmd.ProcessState, said)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// close ends the worker, then the cloud, and removes everything.
func (h *house) close() error {
	var problems []error
	for _, c := range []*child{h.worker, h.cloud} {
		if c == nil {
			continue
		}
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.done:
		case <-time.After(45 * time.Second):
			_ = c.cmd.Process.Kill()
			problems = append(problems, fmt.Errorf("%s had to be killed", c.cmd.Path))
		}
	}
	return errors.Join(append(problems, os.RemoveAll(h.dir))...)
}

// signUp makes a user, an organization, its key and a profile.
func (h *house) signUp(ctx context.Context) (organizationKey string, err error) {
	var answer struct{ Token, ID, Key string }
	steps := []struct{ path, body string }{
		{"/v1/auth/sign-up", `{"email":"bench@example.com","password":"correct horse battery","name":"Bench"}`},
		{"/v1/organizations", `{"name":"Bench"}`},
		{"/v1/organizations/ID/api-keys", `{"name":"bench"}`},
	}
	header := http.Header{}
	for _, step := range steps {
		path := strings.Replace(step.path, "ID", answer.ID, 1)
		if err := call(ctx, http.MethodPost, h.cloudURL+path, header, json.RawMessage(step.body), &answer); err != nil {
			return "", err
		}
		header.Set("Authorization", "Bearer "+answer.Token)
	}
	organizationKey = answer.Key
	build, err := findChromium(ctx)
	if err != nil {
		return "", err
	}
	body := fmt.Sprintf(`{"name":"Bench","browserVersion":%d}`, build.major)
	err = call(ctx, http.MethodPost, h.cloudURL+"/v1/profiles", header, json.RawMessage(body), &answer)
	h.profile = answer.ID
	return organizationKey, err
}

// session is what a launch answers.
type session struct {
	ID                   string
	DebugPort            int
	WebSocketDebuggerURL string
}

func (h *house) launch(ctx context.Context) (s session, err error) {
	body := fmt.Sprintf(`{"profileId":%q,"browser":{"headless":true}}`, h.profile)
	return s, call(ctx, http.MethodPost, h.workerURL+"/sessions/profile", http.Header{"X-Api-Key": {h.key}}, json.RawMessage(body), &s)
}

func (h *house) end(ctx context.Context, s session) error {
	return call(ctx, http.MethodDelete, h.workerURL+"/sessions/"+s.ID, http.Header{"X-Api-Key": {h.key}}, nil, nil)
}

// call makes a request and reads data of the envelope into into.
func call(ctx context.Context, method, address string, header http.Header, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return err
	}
	request.Header = header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		said, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s %s: %s: %s", method, request.URL.Path, answer.Status, said)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(&struct{ Data any }{into})
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}
