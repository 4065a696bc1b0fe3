package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

// config says which worker and cloud are used. It is stored by svc login.
type config struct {
	Worker string `json:"worker,omitempty"`
	Key    string `json:"key,omitempty"`
	Cloud  string `json:"cloud,omitempty"`
	Token  string `json:"token,omitempty"`
}

func configFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "svc", "config.json"), err
}

func readConfig() (config, error) {
	var stored config
	path, err := configFile()
	if err != nil {
		return stored, nil // no home directory
	}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return stored, nil
	case err != nil:
		return stored, err
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		return stored, fmt.Errorf("%s: %w: remove the file, then run svc login", path, err)
	}
	return stored, nil
}

func (c config) write() (string, error) {
	path, err := configFile()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return "", err
	}
	replacement := path + ".new"
	_ = os.Remove(replacement) // with other permissions, from an interrupted login
	if err := os.WriteFile(replacement, append(text, '\n'), 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(replacement, path)
}

// settings returns what flags, the environment and svc login say, in this order.
func (a *app) settings() (config, error) {
	if a.current != nil {
		return *a.current, nil
	}
	c, err := a.readSettings()
	if err == nil {
		a.current = &c
	}
	return c, err
}

func (a *app) readSettings() (config, error) {
	stored, err := readConfig()
	if err != nil {
		return stored, err
	}
	given := a.given
	if given.Key, err = a.secretFile(a.keyFile); err != nil {
		return stored, err
	}
	if given.Token, err = a.secretFile(a.tokenFile); err != nil {
		return stored, err
	}
	c := config{
		Worker: first(given.Worker, os.Getenv("SVC_WORKER"), stored.Worker), Cloud: first(given.Cloud, os.Getenv("SVC_CLOUD_URL"), stored.Cloud),
		Key: first(given.Key, os.Getenv("SVC_API_KEY")), Token: first(given.Token, os.Getenv("SVC_TOKEN")),
	}
	// A stored key is sent only to the server that it was stored for.
	if c.Key == "" && c.Worker == stored.Worker {
		c.Key = stored.Key
	}
	if c.Token == "" && c.Cloud == stored.Cloud {
		c.Token = stored.Token
	}
	return c, nil
}

func first(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// secretFile returns the first line of a file, "" without a name.
func (a *app) secretFile(name string) (string, error) {
	file := a.input
	switch name {
	case "":
		return "", nil
	case "-":
	default:
		opened, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer opened.Close()
		file = opened
	}
	line, err := bufio.NewReader(io.LimitReader(file, 1<<16)).ReadString('\n')
	if line = strings.TrimSpace(line); line != "" {
		return line, nil // the last line may have no end
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return "", &codeError{exitUsage, fmt.Errorf("the first line of %s is empty, but has to be the key", name)}
}

func (a *app) worker() (*svc.Client, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	return c.workerClient()
}

func (c config) workerClient() (*svc.Client, error) {
	switch {
	case c.Worker == "":
		return nil, &codeError{exitUsage, errors.New("no worker is set: run svc login, or set SVC_WORKER and SVC_API_KEY")}
	case c.Key == "":
		return nil, &codeError{exitUnauthorized, fmt.Errorf("no key is set for %s: set SVC_API_KEY or --key-file", c.Worker)}
	}
	client, err := svc.New(svc.Options{Worker: c.Worker, Key: c.Key})
	if err != nil {
		return nil, &codeError{exitUsage, err}
	}
	return client, nil
}

func (a *app) cloud() (*svc.Cloud, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	return c.cloudClient()
}

func (c config) cloudClient() (*svc.Cloud, error) {
	switch {
	case c.Cloud == "":
		return nil, &codeError{exitUsage, errors.New("no cloud is set: run svc login --cloud URL, or set SVC_CLOUD_URL and SVC_TOKEN")}
	case c.Token == "":
		return nil, &codeError{exitUnauthorized, fmt.Errorf("no access token is set for %s: set SVC_TOKEN or --token-file", c.Cloud)}
	}
	cloud, err := svc.NewCloud(svc.CloudOptions{URL: c.Cloud, Token: c.Token})
	if err != nil {
		return nil, &codeError{exitUsage, err}
	}
	return cloud, nil
}

func (a *app) loginCommand() *cobra.Command {
	return &cobra.Command{
		Use: "login", Short: "Store the addresses and keys, after a check", Args: cobra.NoArgs,
		Long: `Stores the URL of the worker and its key, and with --cloud those of the cloud and an access token, after a check.
On a terminal, svc asks for what is missing, and shows no keys. Otherwise the key is the first line of standard input.

Create access tokens in the dashboard, with the scopes profiles:read and profiles:write.`,
		Example: "  svc login --worker https://worker.example --key-file key.txt\n  svc login --cloud https://cloud.example --token-file token.txt",
		RunE:    func(*cobra.Command, []string) error { return a.login() },
	}
}

func (a *app) login() error {
	stored, err := readConfig()
	if err != nil {
		return err
	}
	c := stored
	ask := prompter{app: a, lines: bufio.NewReader(a.input)}
	if a.given.Cloud == "" || a.given.Worker != "" {
		c.Worker, c.Key = ask.server("Worker URL", a.given.Worker, stored.Worker), ask.secret("Worker key", a.keyFile)
	}
	if a.given.Cloud != "" {
		c.Cloud, c.Token = a.given.Cloud, ask.secret("Access token", a.tokenFile)
	}
	if ask.err != nil {
		return ask.err
	}
	if c.Worker != stored.Worker || c.Key != stored.Key {
		if err := c.checkWorker(); err != nil {
			return err
		}
	}
	if a.given.Cloud != "" {
		if err := c.checkCloud(); err != nil {
			return err
		}
	}
	path, err := c.write()
	if err == nil {
		_, _ = fmt.Fprintf(a.out, "Stored in %s, which only you can read.\n", path)
	}
	return err
}

func (c config) checkWorker() error {
	worker, err := c.workerClient()
	if err != nil {
		return err
	}
	ctx, stop := within(callLimit)
	defer stop()
	_, err = worker.Sessions(ctx, false)
	return err
}

// checkCloud accepts a token that may not read profiles.
func (c config) checkCloud() error {
	cloud, err := c.cloudClient()
	if err != nil {
		return err
	}
	ctx, stop := within(callLimit)
	defer stop()
	_, err = cloud.Profiles(ctx)
	var refused *svc.Error
	if errors.As(err, &refused) && refused.Status == http.StatusForbidden {
		return nil
	}
	return err
}

// prompter asks a person, or reads lines where there is none. It keeps the first error.
type prompter struct {
	*app
	lines *bufio.Reader
	err   error
}

func (p *prompter) server(label, given, stored string) string {
	if given != "" || p.err != nil {
		return given
	}
	if !isTerminal(p.input) {
		p.err = &codeError{exitUsage, errors.New("--worker is required")}
		return ""
	}
	suggestion := first(stored, "http://localhost:3000")
	_, _ = fmt.Fprintf(p.errs, "%s [%s]: ", label, suggestion)
	line, err := p.lines.ReadString('\n')
	p.err = err
	return first(strings.TrimSpace(line), suggestion)
}

func (p *prompter) secret(label, file string) string {
	var value string
	switch {
	case p.err != nil:
		return ""
	case file != "" && file != "-":
		value, p.err = p.secretFile(file)
		return value
	case !isTerminal(p.input):
		value, p.err = p.lines.ReadString('\n')
		if value = strings.TrimSpace(value); value != "" {
			p.err = nil // the last line may have no end
		}
		return value
	}
	_, _ = fmt.Fprintf(p.errs, "%s: ", label)
	value, p.err = readHidden(p.input)
	_, _ = fmt.Fprintln(p.errs)
	return strings.TrimSpace(value)
}

// readHidden reads a line without echo. Ctrl-C restores the terminal.
func readHidden(terminal *os.File) (string, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	defer close(done)
	go func() {
		select {
		case <-signals:
			_ = term.Restore(fd, before)
			_, _ = fmt.Fprintln(terminal)
			os.Exit(exitInterrupted)
		case <-done:
		}
	}()
	text, err := term.ReadPassword(fd)
	return string(text), err
}
