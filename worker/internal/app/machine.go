package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/cloud"
)

// loadMachine returns the machine's identity with a new boot id. The machine's
// id is name or, if that is empty, an id that is generated at the first start and
// kept in dir.
func loadMachine(dir, name string, logger *slog.Logger) (cloud.Machine, error) {
	boot, err := uuid.NewV7()
	if err != nil {
		return cloud.Machine{}, fmt.Errorf("create a boot id: %w", err)
	}
	if name != "" {
		return cloud.Machine{ID: name, BootID: boot}, nil
	}
	file := filepath.Join(dir, "machine-id")
	text, err := os.ReadFile(file)
	switch {
	case err == nil && workerID().Match(text):
		return cloud.Machine{ID: string(text), BootID: boot}, nil
	case err == nil:
		logger.Error("machine id is corrupt, creating a new one: the cloud counts the sessions of the old id until their leases expire",
			"file", file, "setAsideAs", file+corruptSuffix)
		if err := os.Rename(file, file+corruptSuffix); err != nil {
			return cloud.Machine{}, fmt.Errorf("set the corrupt machine id aside: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return cloud.Machine{}, fmt.Errorf("read the machine id: %w", err)
	}
	id := uuid.NewString()
	if err := writeMachineID(file, id); err != nil {
		return cloud.Machine{}, fmt.Errorf("save the machine id: %w", err)
	}
	return cloud.Machine{ID: id, BootID: boot}, nil
}

// corruptSuffix marks a corrupt machine id, which is kept for the operator.
const corruptSuffix = ".corrupt"

// writeMachineID writes the id atomically and syncs it, so that it survives a
// power failure.
func writeMachineID(path, name string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(name)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// maxBoots is how many boot ids are remembered; the contract allows no more.
const maxBoots = 16

// predecessors returns the boots that used the directory before, newest first,
// and records this one. All of them have ended, because the caller holds the lock
// on the directory. Invalid lines are skipped.
func predecessors(dir string, boot uuid.UUID) ([]uuid.UUID, error) {
	file := filepath.Join(dir, "boots")
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the list of earlier boots: %w", err)
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
		return nil, fmt.Errorf("save the list of boots: %w", err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return nil, fmt.Errorf("save the list of boots: %w", err)
	}
	return before, nil
}
