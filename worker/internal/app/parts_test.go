package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadMachine_SetsCorruptIDAside(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "machine-id")
	for _, corrupt := range []string{"", "\x00\x00\x00\x00", "two\nlines"} {
		if err := os.WriteFile(file, []byte(corrupt), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		made, err := loadMachine(dir, "", slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || !workerID().MatchString(made.ID) {
			t.Fatalf("%+v, %v", made, err)
		}
		if aside, err := os.ReadFile(file + corruptSuffix); err != nil || string(aside) != corrupt {
			t.Errorf("set aside %q, %v, want %q", aside, err, corrupt)
		}
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), file) {
			t.Errorf("the log says %q", log.String())
		}
		log.Reset()
		if again, err := loadMachine(dir, "", slog.New(slog.NewTextHandler(&log, nil))); err != nil || again.ID != made.ID || log.Len() > 0 {
			t.Errorf("at the next start: %+v, %v, %s", again, err, log.String())
		}
	}
}
