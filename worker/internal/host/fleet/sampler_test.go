package fleet

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// stat is proc/stat after this many used and idle ticks.
func stat(used, idle string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("cpu0 " + used + " 0 0 " + idle + " 0 0 0 0 0 0\n")}
}

// mutableFS is a file system whose files a test can replace during sampling.
type mutableFS struct {
	mu    sync.Mutex
	files fstest.MapFS
}

func (c *mutableFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.Open(name)
}

// set replaces a file; nil removes it.
func (c *mutableFS) set(name string, file *fstest.MapFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[name] = file; file == nil {
		delete(c.files, name)
	}
}

func TestSampler_UpdatesUntilClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		root := &mutableFS{files: machine(map[string]string{"proc/stat": "cpu0 0 0 0 100 0 0 0 0 0 0\n"})}
		s, err := start(root, Options{Disk: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		first := s.Last()
		if first.CPUPercent != 0 || first.MemoryPercent != 25 || first.MemoryLimitBytes != total || first.Load1 != 0.52 || first.DiskFreeBytes <= 0 || !first.At.Equal(time.Now()) {
			t.Errorf("first: %+v", first)
		}
		tick := func() Sample {
			time.Sleep(time.Second)
			synctest.Wait()
			return s.Last()
		}
		root.set("proc/stat", stat("100", "100"))
		if got := tick(); got.CPUPercent != 100 || got.CPUAverage < 5 || got.CPUAverage > 15 || !got.At.Equal(time.Now()) {
			t.Errorf("after a second of full use: %+v", got)
		}
		root.set("proc/stat", stat("125", "175"))
		if got := tick(); got.CPUPercent != 25 || got.CPUAverage < 8 || got.CPUAverage > 15 {
			t.Errorf("after a second of 25%% use: %+v", got)
		}
		kept := s.Last()
		root.set("proc/meminfo", nil)
		for range 3 {
			if got := tick(); got != kept {
				t.Errorf("a failed sample replaced the last one: %+v", got)
			}
		}
		root.set("proc/meminfo", &fstest.MapFile{Data: []byte(strings.Replace(meminfo, "6000000", "2000000", 1))})
		if got := tick(); got.MemoryPercent != 75 {
			t.Errorf("after the failure: %+v", got)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 2 {
			t.Errorf("got %d warnings, want one for the failure and one for its end:\n%s", n, &log)
		}
		s.Close()
		kept = s.Last()
		root.set("proc/meminfo", &fstest.MapFile{Data: []byte(meminfo)})
		if got := tick(); got != kept {
			t.Error("sampling continued after Close")
		}
	})
}

func TestSampler_KeepsLastSampleOnError(t *testing.T) {
	for _, c := range []struct {
		root fstest.MapFS
		disk string
	}{{machine(nil), "/no/such/directory"}, {fstest.MapFS{}, "/"}} {
		if s, err := start(c.root, Options{Disk: c.disk}); err == nil {
			s.Close()
			t.Errorf("got no error for the directory %q", c.disk)
		}
	}
}

func TestSampler_RealMachine(t *testing.T) {
	s, err := Start(Options{Disk: t.TempDir(), Every: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	deadline := time.Now().Add(10 * time.Second)
	for busy := 0; s.Last().CPUPercent == 0; busy++ { // busy loop
		if time.Now().After(deadline) {
			t.Fatalf("the sampler reports no CPU usage: %+v", s.Last())
		}
	}
	facts, err := Host()
	if err != nil {
		t.Fatal(err)
	}
	name, _ := os.Hostname()
	got := s.Last()
	t.Logf("%+v, %+v", got, facts)
	if facts.Hostname != name || facts.CPUs <= 0 || facts.Kernel == "" || int64(facts.MemoryBytes) != got.MemoryLimitBytes {
		t.Errorf("facts %+v", facts)
	}
	if got.MemoryUsedBytes <= 0 || got.MemoryUsedBytes >= got.MemoryLimitBytes || got.MemoryPercent <= 0 || got.DiskFreeBytes <= 0 || got.CPUPercent > 100 {
		t.Errorf("sample %+v", got)
	}
	if _, err := OutOfMemoryKills(); err != nil {
		t.Error(err)
	}
}
