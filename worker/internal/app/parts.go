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
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/access"
	"github.com/browser-svc/svc/worker/internal/cloud"
)

// loadMachine is who this worker is: the configured name, or one that was made
// at the first start and is kept in dir; and a new boot.
func loadMachine(dir, name string, logger *slog.Logger) (cloud.Machine, error) {
	boot, err := uuid.NewV7()
	if err != nil {
		return cloud.Machine{}, fmt.Errorf("make a boot id: %w", err)
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
		logger.Error("THIS MACHINE'S NAME CAN'T BE READ: it gets a new one, and the cloud counts what ran under the old one until its leases lapse",
			"file", file, "setAsideAs", file+corruptSuffix)
		if err := os.Rename(file, file+corruptSuffix); err != nil {
			return cloud.Machine{}, fmt.Errorf("set the machine's name aside: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return cloud.Machine{}, fmt.Errorf("read the machine's name: %w", err)
	}
	made := uuid.NewString()
	if err := writeMachineID(file, made); err != nil {
		return cloud.Machine{}, fmt.Errorf("keep the machine's name: %w", err)
	}
	return cloud.Machine{ID: made, BootID: boot}, nil
}

// corruptSuffix marks a machine's name that can't be read, for the operator.
const corruptSuffix = ".corrupt"

// writeMachineID writes the machine's name, whole or not at all, to stay when the
// machine loses its power.
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

// workerKey settles the worker key. One that was made is printed, once, for the
// operator; never logged.
func workerKey(config Config) access.Key {
	key, made := access.NewKey(config.WorkerKey, config.OrganizationKey)
	if made != "" {
		fmt.Printf("Neither API_KEY nor SVC_KEY is set. The worker key until the next start:\n\n  %s\n\n", made)
	}
	return key
}

// stripPrefix lets the worker be reached below a path as well, for a load
// balancer that passes it on.
func stripPrefix(prefix string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			address := c.Request().URL
			if rest, ok := strings.CutPrefix(address.Path, prefix); ok && strings.HasPrefix(rest, "/") {
				address.Path, address.RawPath = rest, strings.TrimPrefix(address.RawPath, prefix)
			}
			return next(c)
		}
	}
}

func splitDirs(list string) []string {
	if list == "" {
		return nil
	}
	return filepath.SplitList(list)
}
