package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestPredecessors_ReturnsEarlierBootsOfDirectory(t *testing.T) {
	dir := t.TempDir()
	var ran []uuid.UUID // newest first
	for range 20 {
		boot := uuid.Must(uuid.NewV7())
		before, err := predecessors(dir, boot)
		if err != nil {
			t.Fatal(err)
		}
		if before == nil || !slices.Equal(before, ran[:min(len(ran), maxBoots)]) {
			t.Errorf("got predecessors %v, want %v", before, ran)
		}
		ran = slices.Insert(ran, 0, boot)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("the directory contains %v", files)
	}
}

func TestPredecessors_SkipsUnreadableLines(t *testing.T) {
	dir, boot := t.TempDir(), uuid.New()
	if err := os.WriteFile(filepath.Join(dir, "boots"), []byte("\x00\x00nonsense\n"+boot.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := predecessors(dir, uuid.New())
	if err != nil || !slices.Equal(before, []uuid.UUID{boot}) {
		t.Errorf("got predecessors %v, %v", before, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := predecessors(dir, uuid.New()); err == nil {
		t.Error("the boot was not saved, and no error was returned")
	}
}
func TestLoadMachine_SetsCorruptIDAside(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "machine-id")
	for _, corrupt := range []string{"", "\x00\x00\x00\x00", "two\nlines"} {
		if err := os.WriteFile(file, []byte(corrupt), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		machine, err := loadMachine(dir, "", slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || !workerID().MatchString(machine.ID) {
			t.Fatalf("%+v, %v", machine, err)
		}
		if aside, err := os.ReadFile(file + corruptSuffix); err != nil || string(aside) != corrupt {
			t.Errorf("the corrupt file contains %q, %v, want %q", aside, err, corrupt)
		}
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), file) {
			t.Errorf("got log %q", log.String())
		}
		log.Reset()
		if again, err := loadMachine(dir, "", slog.New(slog.NewTextHandler(&log, nil))); err != nil || again.ID != machine.ID || log.Len() > 0 {
			t.Errorf("at the next start: %+v, %v, %s", again, err, log.String())
		}
	}
}
