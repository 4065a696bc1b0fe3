package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
)

func TestPredecessors_ReturnsEarlierBootsOfDirectory(t *testing.T) {
	dir := t.TempDir()
	var ran []uuid.UUID // the latest first
	for range 20 {
		boot := uuid.Must(uuid.NewV7())
		before, err := predecessors(dir, boot)
		if err != nil {
			t.Fatal(err)
		}
		if before == nil || !slices.Equal(before, ran[:min(len(ran), maxBoots)]) {
			t.Errorf("before are %v, want %v", before, ran)
		}
		ran = slices.Insert(ran, 0, boot)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("the directory holds %v", files)
	}
}

func TestPredecessors_SkipsUnreadableLines(t *testing.T) {
	dir, boot := t.TempDir(), uuid.New()
	if err := os.WriteFile(filepath.Join(dir, "boots"), []byte("\x00\x00nonsense\n"+boot.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := predecessors(dir, uuid.New())
	if err != nil || !slices.Equal(before, []uuid.UUID{boot}) {
		t.Errorf("before are %v, %v", before, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := predecessors(dir, uuid.New()); err == nil {
		t.Error("the boot is not kept, and nobody hears of it")
	}
}
