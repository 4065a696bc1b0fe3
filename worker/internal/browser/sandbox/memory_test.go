package sandbox_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// holdMemory is a script that needs this many megabytes until the next line comes. It creates
// the file holds when it has them.
func holdMemory(megabytes int) string {
	return fmt.Sprintf("dd if=/dev/zero bs=%dM count=1 2>/dev/null | { head -c 1 >/dev/null; touch /svc/data/holds; read more <&3; cat >/dev/null; }", megabytes)
}

func TestMemoryLimit_EndsLaunch(t *testing.T) {
	bounded := func(o *sandbox.Options) { o.Memory, o.Disk = 48<<20, 128<<20 }
	for name, script := range map[string]string{
		"memory": holdMemory(96),
		"files":  "dd if=/dev/zero of=/svc/data/large bs=1M count=48 2>/dev/null; dd if=/dev/zero of=/dev/shm/large bs=1M count=48 2>/dev/null; read more <&3",
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, bounded).prepare(t)
			g.exec(t, script+"; echo continues", func() { _ = g.cmd.Process.Kill() })
			if output := g.wait(t); !g.OutOfMemory() || strings.Contains(output, "continues") {
				t.Errorf("out of memory is %t, output %q", g.OutOfMemory(), output)
			}

			free := open(t, func(o *sandbox.Options) { bounded(o); o.Disabled = []string{sandbox.MemoryLimit} })
			g = free.startScript(t, script+"; echo continues")
			if _, err := g.stdin.WriteString("more\n"); err != nil {
				t.Fatal(err)
			}
			if output := g.wait(t); output != "continues" || g.OutOfMemory() {
				t.Errorf("without the limit: got output %q", output)
			}
		})
	}
}

func TestMemoryPressure_EndsLargestLaunch(t *testing.T) {
	if isHostRoot() && os.Getenv(hostTestEnv) == "" {
		t.Log(runOnHost(t, hideControlGroups, t.Name()))
		return
	}
	var pressure atomic.Bool
	h := open(t, func(o *sandbox.Options) { o.Pressure = func() bool { return pressure.CompareAndSwap(true, false) } })
	names := make(chan string, 2)
	start := func(name string, megabytes int) *script {
		g := h.prepare(t)
		g.exec(t, holdMemory(megabytes), func() {
			_ = g.cmd.Process.Kill()
			names <- name
		})
		testenv.Eventually(t, "a launch that holds its memory", func() bool {
			_, err := g.Data().Stat("holds")
			return err == nil
		})
		return g
	}
	small, large := start("small", 24), start("large", 96)
	for _, c := range []struct {
		name  string
		other *script
	}{{"large", small}, {"small", nil}} {
		pressure.Store(true)
		select {
		case name := <-names:
			if name != c.name {
				t.Errorf("the %s launch was ended, want the %s one", name, c.name)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no launch was ended")
		}
		if c.other != nil && c.other.OutOfMemory() {
			t.Error("the other launch was ended too")
		}
	}
	if output := large.wait(t); !large.OutOfMemory() || output != "" {
		t.Errorf("out of memory is %t, output %q", large.OutOfMemory(), output)
	}
}

// TestSetFrozen_StopsProcessesThatFork freezes a launch by its control group and, as an
// unprivileged user, without it.
func TestSetFrozen_StopsProcessesThatFork(t *testing.T) {
	h := open(t, nil)
	if err := h.FreezeSupport(); err != nil {
		t.Fatal(err)
	}
	g := h.startScript(t, `for n in 1 2 3; do setsid sh -c 'while :; do sh -c "echo x >>/svc/data/lines"; done' & done; while :; do true & wait $!; done`)
	size := func() int64 {
		info, err := g.Data().Stat("lines")
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for range 5 {
		before := size()
		testenv.Eventually(t, "running processes", func() bool { return size() > before })
		if err := g.SetFrozen(true); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "stopped processes", func() bool {
			before := size()
			time.Sleep(50 * time.Millisecond) // what must not happen cannot be awaited
			return size() == before
		})
		if err := g.SetFrozen(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.SetFrozen(true); err != nil {
		t.Fatal(err)
	}
	g.end() // waits until no process has the output open
}
