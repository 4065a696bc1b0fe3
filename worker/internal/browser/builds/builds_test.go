package builds_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
)

// buildDir is a directory of fake browser builds.
type buildDir struct {
	t       *testing.T
	root    string
	program []byte
}

// The program prints the file next to it and records each run.
const program = `package main

import ("fmt"; "os"; "os/exec"; "strings"; "time")

func main() {
	self, _ := os.Executable()
	if os.Args[1] == "child" {
		time.Sleep(time.Minute)
	}
	mark, _ := os.OpenFile(self+".asked", os.O_APPEND|os.O_WRONLY, 0)
	mark.Write([]byte{'x'})
	answer, _ := os.ReadFile(self+".answer")
	switch string(answer) {
	case "hang":
		exec.Command(self, "child").Start()
		time.Sleep(time.Minute)
	case "slow":
		time.Sleep(400 * time.Millisecond)
		answer = []byte("Chromium 100.0.4896.60")
	case "endless":
		for { os.Stdout.Write(make([]byte, 1000)) }
	case "fail":
		fmt.Fprintln(os.Stderr, "cannot start: no library")
		os.Exit(127)
	}
	if other, ok := strings.CutPrefix(string(answer), "after "); ok {
		for mark := []byte(nil); len(mark) == 0; time.Sleep(time.Millisecond) {
			mark, _ = os.ReadFile(other + ".asked")
		}
		answer = []byte("Chromium 100.0.4896.60")
	}
	fmt.Println(string(answer))
}
`

func newBuildDir(t *testing.T) *buildDir {
	t.Helper()
	source, binary := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return &buildDir{t: t, root: testenv.PublicTempDir(t), program: raw}
}

func (b *buildDir) path(name string) string { return filepath.Join(b.root, name) }

// write creates a new file, as an installation does.
func (b *buildDir) write(name string, content []byte, mode os.FileMode) {
	b.t.Helper()
	path := b.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	os.Remove(path)
	if err := os.WriteFile(path, content, mode); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		b.t.Fatal(err)
	}
}

// add installs a program with its answer, and empty files next to it.
func (b *buildDir) add(name, answer string, beside ...string) {
	b.t.Helper()
	b.write(name, b.program, 0o755)
	b.write(name+".answer", []byte(answer), 0o644)
	b.write(name+".asked", nil, 0o666)
	for _, file := range beside {
		b.write(filepath.Join(filepath.Dir(name), file), nil, 0o644)
	}
}

// processes returns the processes of a program, or of all below a directory.
func (b *buildDir) processes(name string) []int {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	var pids []int
	for _, link := range links {
		if program, err := os.Readlink(link); err == nil && strings.HasPrefix(program, b.path(name)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs returns how often a program was run.
func (b *buildDir) runs(name string) int {
	b.t.Helper()
	mark, err := os.ReadFile(b.path(name + ".asked"))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(mark)
}
