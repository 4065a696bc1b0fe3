package children

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
)

// program returns a program that is a shell script.
func program(t *testing.T, name, script, health string) Program {
	t.Helper()
	dir := t.TempDir()
	p := Program{Name: name, Path: filepath.Join(dir, name), Log: filepath.Join(dir, "logs", name+".log"), Health: health, Environment: []string{"GREETING=hello"}}
	if err := os.WriteFile(p.Path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// healthyAddress returns the URL of a server that always responds with 200.
func healthyAddress(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	return server.URL
}

const untilSIGTERM = `trap 'echo ended; exit 0' TERM; echo "$GREETING"; while :; do sleep 0.05; done`

func TestGroup_StopsInReverseOrder(t *testing.T) {
	var said []string
	g := &Group{Say: func(_ string, args ...any) { said = append(said, args[0].(string)) }}
	health := healthyAddress(t)
	for _, name := range []string{"first", "second"} {
		if err := g.Start(t.Context(), program(t, name, untilSIGTERM, health)); err != nil {
			t.Fatal(err)
		}
	}
	for _, child := range g.all {
		testenv.Eventually(t, child.Name+" has started", func() bool { return strings.Contains(Tail(child.Log), "hello") })
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(said, []string{"second", "first"}) {
		t.Errorf("stopped %v", said)
	}
	for _, child := range g.all {
		if log := Tail(child.Log); log != "hello\nended" {
			t.Errorf("%s logged %q", child.Name, log)
		}
		<-child.Done()
	}
}

// TestGroup_SuperviseRestartsProgram kills a program twice. The other program continues,
// and both are stopped at the end.
func TestGroup_SuperviseRestartsProgram(t *testing.T) {
	said := &testenv.Log{}
	g := &Group{Say: func(format string, args ...any) { fmt.Fprintf(said, format+"\n", args...) }}
	cloud, worker := program(t, "cloud", `echo $$ > "$0.pid"; `+untilSIGTERM, healthyAddress(t)), program(t, "worker", untilSIGTERM, healthyAddress(t))
	for _, each := range []Program{cloud, worker} {
		if err := g.Start(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	supervised := make(chan struct{})
	go func() {
		defer close(supervised)
		g.Supervise(ctx)
	}()
	for restarts := 1; restarts <= 2; restarts++ {
		testenv.Eventually(t, "the program has started", func() bool { return strings.Count(Tail(cloud.Log), "hello") == restarts })
		kill := exec.CommandContext(t.Context(), "sh", "-c", `kill -9 "$(cat "$0.pid")"`, cloud.Path)
		if err := kill.Run(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "the program runs again", func() bool { return strings.Count(said.String(), "The cloud runs again") == restarts })
	}
	cancel()
	<-supervised
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	if log := Tail(worker.Log); log != "hello\nended" || !strings.HasSuffix(Tail(cloud.Log), "ended") {
		t.Errorf("the other program logged %q", log)
	}
	if text := said.String(); strings.Count(text, "The cloud exited (signal: killed)") != 2 || strings.Contains(text, "worker exited") {
		t.Errorf("said %s", text)
	}
}

func TestStart_StopsProgramThatDoesNotBecomeReady(t *testing.T) {
	g := &Group{Say: func(string, ...any) {}}
	ctx, cancel := context.WithCancel(t.Context())
	p := program(t, "mute", untilSIGTERM, "http://127.0.0.1:1/health")
	go func() {
		testenv.Eventually(t, "the program has started", func() bool { return strings.Contains(Tail(p.Log), "hello") })
		cancel()
	}()
	if err := g.Start(ctx, p); err == nil || !strings.Contains(err.Error(), "did not become ready") {
		t.Errorf("Start returned %v", err)
	}
	if err := g.Stop(); err != nil || !strings.HasSuffix(Tail(p.Log), "ended") {
		t.Errorf("Stop returned %v, log: %q", err, Tail(p.Log))
	}
}

func TestFreePort_IsOnLoopback(t *testing.T) {
	port, err := FreePort(t.Context())
	if err != nil || port == "" || port == "0" {
		t.Errorf("%q, %v", port, err)
	}
}

// TestStart_IgnoresResponseOfOtherProcess uses a health address that responds
// although the child has exited.
func TestStart_IgnoresResponseOfOtherProcess(t *testing.T) {
	p := program(t, "short", "exit 3", healthyAddress(t))
	c := &Child{Program: p, cmd: exec.CommandContext(t.Context(), p.Path), done: make(chan struct{})}
	if err := c.cmd.Run(); err == nil {
		t.Fatal("the program did not fail")
	}
	close(c.done)
	if err := c.ready(t.Context()); err == nil || !strings.Contains(err.Error(), "the short exited (exit status 3)") {
		t.Errorf("ready returned %v", err)
	}
}

func TestRequireFree_ReportsPortInUse(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	if err := RequireFree(t.Context(), port); err == nil || err.Error() != "port "+port+" is in use" {
		t.Errorf("port in use: %v", err)
	}
	server.Close()
	if err := RequireFree(t.Context(), port); err != nil {
		t.Errorf("free port: %v", err)
	}
}
