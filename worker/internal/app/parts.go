package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/worker/internal/auth"
	"github.com/browser-svc/svc/worker/internal/cloud"
)

// machineOf is who this worker is: the configured name, or one that was made
// at the first start and is kept in dir; and a new boot.
func machineOf(dir, name string) (cloud.Machine, error) {
	boot, err := uuid.NewV7()
	if err != nil {
		return cloud.Machine{}, fmt.Errorf("make a boot id: %w", err)
	}
	if name != "" {
		return cloud.Machine{ID: name, BootID: boot}, nil
	}
	file := filepath.Join(dir, "machine-id")
	text, err := os.ReadFile(file)
	if err == nil && workerID().Match(text) {
		return cloud.Machine{ID: string(text), BootID: boot}, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cloud.Machine{}, fmt.Errorf("read the machine's name: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cloud.Machine{}, fmt.Errorf("make DATA_DIR: %w", err)
	}
	made := uuid.NewString()
	if err := os.WriteFile(file, []byte(made), 0o600); err != nil {
		return cloud.Machine{}, fmt.Errorf("keep the machine's name: %w", err)
	}
	return cloud.Machine{ID: made, BootID: boot}, nil
}

// workerKey settles the worker key. One that was made is printed, once, for the
// operator; never logged.
func workerKey(config Config) auth.Key {
	key, made := auth.NewKey(config.WorkerKey, config.OrganizationKey)
	if made != "" {
		fmt.Printf("Neither API_KEY nor SVC_KEY is set. The worker key until the next start:\n\n  %s\n\n", made)
	}
	return key
}

// withoutPrefix lets the worker be reached below a path as well, for a load
// balancer that passes it on.
func withoutPrefix(prefix string) echo.MiddlewareFunc {
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

func dirs(list string) []string {
	if list == "" {
		return nil
	}
	return filepath.SplitList(list)
}
