package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"syscall"
	"time"
)

// driver is one long-running chromedriver. Each of its sessions has its own browser.
type driver struct {
	setup
	cmd     *exec.Cmd
	address string
}

var (
	driverVersion = regexp.MustCompile(`ChromeDriver ([0-9.]+)`)
	driverPort    = regexp.MustCompile(`successfully on port (\d+)`)
)

func newDriver(ctx context.Context, s setup) (*driver, string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.Driver, "--version").Output()
	version := driverVersion.FindSubmatch(out)
	if err != nil || version == nil {
		return nil, "", fmt.Errorf("%s --version: %w: %s", s.Driver, err, out)
	}
	d := &driver{setup: s, cmd: exec.Command(s.Driver, "--port=0")} //nolint:noctx // close ends it
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, "", err
	}
	defer time.AfterFunc(limit, func() { _ = d.cmd.Process.Kill() }).Stop()
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if port := driverPort.FindSubmatch(lines.Bytes()); port != nil {
			d.address = "http://127.0.0.1:" + string(port[1])
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return d, string(version[1]), nil
		}
	}
	d.close()
	return nil, "", errors.Join(errors.New("chromedriver did not print its port"), lines.Err())
}

func (d *driver) visit(ctx context.Context, marks *marks) (err error) {
	arguments := []string{"--headless"}
	if !d.Sandbox {
		arguments = append(arguments, "--no-sandbox")
	}
	type object = map[string]any
	var session struct{ SessionID string }
	if err := d.call(ctx, http.MethodPost, "/session", object{"capabilities": object{"alwaysMatch": object{
		"browserName": "chrome", "goog:chromeOptions": object{"binary": d.Chromium, "args": arguments},
	}}}, &session); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	path := "/session/" + session.SessionID
	defer func() {
		err = errors.Join(err, d.call(context.WithoutCancel(ctx), http.MethodDelete, path, nil, nil))
	}()
	if err := d.call(ctx, http.MethodPost, path+"/goog/cdp/execute", object{"cmd": "Browser.getVersion", "params": object{}}, nil); err != nil {
		return fmt.Errorf("version: %w", err)
	}
	marks.answered()
	if err := d.call(ctx, http.MethodPost, path+"/url", object{"url": d.Page}, nil); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	marks.loaded()
	return nil
}

// call sends one WebDriver command and decodes the value of the response to into.
func (d *driver) call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, d.address+path, content)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, said)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(said, &struct{ Value any }{into})
}

func (d *driver) close() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}
