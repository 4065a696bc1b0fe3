package profiledata_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

const helperVariable = "PROFILEDATA_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		if err := runHelper(os.Args[1:]); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runHelper runs as a separate process on a store. Its arguments are the store's
// directory, a command and numbers.
func runHelper(args []string) error {
	if args[1] == "save-remotely" {
		return saveRemotely(append(args[:1:1], args[2:]...))
	}
	number := func(i int) int { n, _ := strconv.Atoi(args[i]); return n }
	stop := &pausingContext{}
	opts := profiledata.LocalOptions{Dir: args[0], Versions: 3, MaxBytes: 64 << 20, Clock: clock.System{}, Logger: slog.New(stop)}
	store, err := profiledata.OpenLocal(opts)
	if err != nil {
		return err
	}
	switch args[1] {
	case "save-once": // number of the data, check at which it stops
		stop.Context, stop.pauseLook = context.Background(), number(3)
		return saveOne(store, stop, number(2))
	case "save-on": // number of the first data
		for i := number(2); ; i++ {
			if err := saveOne(store, &pausingContext{Context: context.Background()}, i); err != nil {
				return err
			}
		}
	case "hold":
		if _, err := store.Acquire(profileID); err != nil {
			return err
		}
		stop.halt()
	case "contend": // times
		return contendForProfile(store, filepath.Join(filepath.Dir(args[0]), "held"), number(2))
	}
	return nil
}

func saveOne(store *profiledata.Local, ctx *pausingContext, i int) error {
	c, err := store.Acquire(profileID)
	if err != nil {
		return err
	}
	defer c.Release()
	dir, err := os.MkdirTemp("", "svc-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	if err := c.Restore(context.Background(), root); err != nil {
		return err
	}
	if err := root.WriteFile("a", []byte("replaced each time"), 0o600); err != nil {
		return err
	}
	for name, text := range numbered(i) {
		if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o700), root.WriteFile(name, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	fmt.Println("saving", i)
	if err := c.Save(ctx, root); err != nil {
		return err
	}
	fmt.Println("saved", i, ctx.looks)
	return nil
}

// numbered returns files whose every byte depends on a number.
func numbered(i int) map[string]string {
	random, all := rand.New(rand.NewSource(int64(i))), map[string]string{"number": strconv.Itoa(i)}
	for f := range 20 {
		text := make([]byte, 60_000)
		random.Read(text[:50_000])
		all[fmt.Sprintf("Default/f%02d", f)] = string(text)
	}
	return all
}

// pausingContext is a context and a log handler that stop their process at the nth
// check.
type pausingContext struct {
	context.Context
	looks, pauseLook int
}

func (s *pausingContext) Err() error {
	if s.looks++; s.looks == s.pauseLook {
		s.halt()
	}
	return nil
}

// halt waits to be killed.
func (s *pausingContext) halt() {
	fmt.Println("stopped")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(2)
}

func (s *pausingContext) Enabled(context.Context, slog.Level) bool { return true }
func (s *pausingContext) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *pausingContext) WithGroup(string) slog.Handler            { return s }

// Handle stops after the last check, when the new version is in place and the old
// versions are not yet removed.
func (s *pausingContext) Handle(_ context.Context, r slog.Record) error {
	if s.pauseLook < 0 && r.Message == "profile data saved" {
		s.halt()
	}
	return nil
}

// helperProcess is a running helper.
type helperProcess struct {
	*exec.Cmd
	output *bufio.Scanner
}

func start(t *testing.T, r *fixture, words ...any) *helperProcess {
	t.Helper()
	return startProcess(t, r.opts.Dir, words...)
}

// startProcess starts a helper for a store.
func startProcess(t *testing.T, store string, words ...any) *helperProcess {
	t.Helper()
	args := []string{store}
	for _, w := range words {
		args = append(args, fmt.Sprint(w))
	}
	p := &helperProcess{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), helperVariable+"=1", "TMPDIR="+t.TempDir())
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.StdinPipe(); err != nil { // so that it ends with this process
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.output = bufio.NewScanner(out)
	t.Cleanup(p.kill)
	return p
}

// kill kills the process; it may be called again.
func (p *helperProcess) kill() {
	if p.ProcessState == nil {
		_ = p.Process.Kill()
		for p.output.Scan() {
		}
		_ = p.Wait()
	}
}

// await reads the output until it contains word.
func (p *helperProcess) await(t *testing.T, word string) string {
	t.Helper()
	var output string
	for p.output.Scan() {
		if output = p.output.Text(); strings.HasPrefix(output, word) {
			return output
		}
	}
	t.Fatalf("the helper ended without the output %q; its last output was %q (%v)", word, output, p.output.Err())
	return ""
}
