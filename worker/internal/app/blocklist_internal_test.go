package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadBlockList_NamesVariableFileAndLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	c := Config{BlockList: path}
	if _, err := c.readBlockList(); err == nil || !strings.HasPrefix(err.Error(), "BLOCK_LIST: ") || !strings.Contains(err.Error(), path) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(path, []byte("||a.test^\n||a b^\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.readBlockList(); err == nil || !strings.HasPrefix(err.Error(), "BLOCK_LIST: "+path+": line 2: ") {
		t.Errorf("a broken line: %v", err)
	}
	if err := os.WriteFile(path, []byte("||a.test^\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := c.readBlockList(); err != nil || list.Hosts() != 1 {
		t.Errorf("a list: %v, %v", list, err)
	}
	if list, err := (Config{}).readBlockList(); list != nil || err != nil {
		t.Errorf("no list: %v, %v", list, err)
	}
}
