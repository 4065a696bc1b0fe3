package sandbox_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

func TestProcessLimit_StopsForkBomb(t *testing.T) {
	const script = `for n in $(seq 1 60); do sleep 60 >/dev/null 2>&1 & echo $n; done; echo mine`
	bounded := func(o *sandbox.Options) { o.Processes = 20 }
	output := open(t, bounded).run(t, script)
	if n := strings.Count(output, "\n"); strings.Contains(output, "mine") || n > 20 {
		t.Errorf("got %d processes", n)
	}
	free := func(o *sandbox.Options) { bounded(o); o.Disabled = []string{sandbox.ProcessLimit} }
	if output := open(t, free).run(t, script); !strings.Contains(output, "mine") {
		t.Errorf("without the limit: got output %q", output)
	}
}

func TestDiskLimit_StopsWrites(t *testing.T) {
	const script = `for place in /svc/home /svc/data /tmp /dev/shm; do
		dd if=/dev/zero of=$place/big bs=1M count=40 2>&1 | grep -q 'No space left' && echo full
		rm -f $place/big
	done
	cd /svc/home && touch $(seq 1 3000) 2>/dev/null
	ls | wc -l`
	output := open(t, func(o *sandbox.Options) { o.Disk = 16 << 20 }).run(t, script)
	if strings.Count(output, "full") != 4 {
		t.Errorf("want four full file systems: %s", output)
	}
	if n, err := strconv.Atoi(output[strings.LastIndexByte(output, '\n')+1:]); err != nil || n >= 3000 {
		t.Errorf("got %d files without reaching the limit", n)
	}
	if output := open(t, func(o *sandbox.Options) { o.Disk = 0 }).run(t, script); strings.Contains(output, "full") {
		t.Errorf("without the limit: got output %q", output)
	}
}

func TestClose_RemovesControlGroups(t *testing.T) {
	h := open(t, nil)
	parents := recordedParents(t, h.dir)
	if len(parents) == 0 {
		t.Fatal("found no control groups")
	}
	g := h.startScript(t, "read wait <&3")
	if countGroups(t, parents) == 0 {
		t.Error("the launch has no control group")
	}
	g.end()
	g.Close()
	if n := countGroups(t, parents); n != 0 {
		t.Errorf("%d control groups are left", n)
	}
	h.Close()
	for _, dir := range parents {
		if exists(dir) {
			t.Errorf("leaked %s", dir)
		}
	}
}

func TestOpen_SweepsEarlierGroups(t *testing.T) {
	testSweep(t, func(t *testing.T, _ string) {})
}

func TestOpen_SweepsGroupsWhoseRecordIsLost(t *testing.T) {
	testSweep(t, func(t *testing.T, record string) {
		if err := os.Remove(record); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOpen_SweepsGroupsWhoseRecordIsDamaged(t *testing.T) {
	testSweep(t, func(t *testing.T, record string) {
		if err := os.WriteFile(record, []byte(`["/sys/fs/cg`), 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

// testSweep opens the state directory of a worker that ended without cleanup, after
// damage has changed its state file.
func testSweep(t *testing.T, damage func(t *testing.T, record string)) {
	t.Helper()
	dir, start := testenv.PublicTempDir(t), starter(t)
	first, err := sandbox.Open(t.Context(), sandbox.Options{}, dir, start)
	if err != nil {
		t.Fatal(err)
	}
	h := &testManager{Manager: first, dir: dir, start: start}
	g := h.startScript(t, "sleep 60")
	parents := recordedParents(t, dir)
	if countGroups(t, parents) == 0 {
		t.Fatal("the launch has no control group")
	}
	damage(t, filepath.Join(dir, ".cgroups"))
	// The first manager is not closed; its process still runs.
	second, err := sandbox.Open(t.Context(), sandbox.Options{}, dir, start)
	if err != nil {
		t.Fatal(err)
	}
	if n := countGroups(t, parents); n != 0 {
		t.Errorf("%d groups are left", n)
	}
	state, err := g.cmd.Process.Wait()
	if err != nil || state.Exited() {
		t.Errorf("the process exited before the sweep: %v, %v", state, err)
	}
	second.Close()
	for _, parent := range parents {
		if exists(parent) {
			t.Errorf("leaked %s", parent)
		}
	}
}

func recordedParents(t *testing.T, dir string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, ".cgroups"))
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for part := range strings.SplitSeq(strings.Trim(string(raw), "[]"), ",") {
		dirs = append(dirs, strings.Trim(part, `"`))
	}
	return dirs
}

func countGroups(t *testing.T, dirs []string) int {
	t.Helper()
	n := 0
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				n++
			}
		}
	}
	return n
}

func TestHasTimezone(t *testing.T) {
	for name, want := range map[string]bool{"Asia/Tokyo": true, "Nowhere/City": false, "../../../etc/passwd": false, "": false} {
		if got := sandbox.HasTimezone(name); got != want {
			t.Errorf("HasTimezone(%q) is %v", name, got)
		}
	}
}

func TestData_OutlivesProcesses(t *testing.T) {
	h := open(t, nil)
	if !h.Private() {
		t.Fatal("the sandbox has no private files")
	}
	g := h.startScript(t, "echo kept >/svc/data/file; ln -s /etc/passwd /svc/data/out")
	_, _ = g.cmd.Process.Wait()
	g.end()
	raw, err := g.Data().ReadFile("file")
	if err != nil || string(raw) != "kept\n" {
		t.Errorf("read %q, %v", raw, err)
	}
	if raw, err := g.Data().ReadFile("out"); err == nil {
		t.Errorf("a link resolves outside the sandbox: %.20q", raw)
	}
}

// The API allows 50 switches of 1,024 characters; JSON encodes some characters in six
// bytes.
func TestSetup_AcceptsMaximumSwitches(t *testing.T) {
	h := open(t, nil)
	for _, length := range []int{10, 1024} {
		for _, character := range []string{"<", "\u2028", "\U0001F600"} {
			var args []string
			for range 50 {
				args = append(args, strings.Repeat(character, length))
			}
			want := fmt.Sprintf("50 %x", sha256.Sum256([]byte(strings.Join(args, ""))))
			if got := h.run(t, `printf '%s ' $#; printf %s "$@" | sha256sum | cut -d ' ' -f 1`, args...); got != want {
				t.Errorf("%d times %q: got %s, want %s", length, character, got, want)
			}
		}
	}
}
