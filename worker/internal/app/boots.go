package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// maxBoots is how many boots of a worker are remembered, as many as the contract
// takes.
const maxBoots = 16

// predecessors returns the boots that ran on the directory before, the latest
// first, and adds this one. They have ended: the caller has the directory to
// itself. What can't be read of the list is left out.
func predecessors(dir string, boot uuid.UUID) ([]uuid.UUID, error) {
	file := filepath.Join(dir, "boots")
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the earlier boots: %w", err)
	}
	before := []uuid.UUID{}
	for line := range strings.Lines(string(text)) {
		if id, err := uuid.Parse(strings.TrimSpace(line)); err == nil && len(before) < maxBoots {
			before = append(before, id)
		}
	}
	var list strings.Builder
	fmt.Fprintln(&list, boot)
	for _, id := range before[:min(len(before), maxBoots-1)] {
		fmt.Fprintln(&list, id)
	}
	temporary := file + ".new"
	if err := os.WriteFile(temporary, []byte(list.String()), 0o600); err != nil {
		return nil, fmt.Errorf("keep the boots: %w", err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return nil, fmt.Errorf("keep the boots: %w", err)
	}
	return before, nil
}
