package browser

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrUncleanExit means that a browser's data was not saved because the browser
// did not close cleanly or lost its display. The data may be inconsistent.
var ErrUncleanExit = errors.New("the browser did not close by itself")

// Data restores a launch's data directory before the start and saves it after a
// clean exit.
type Data interface {
	// Restore writes the saved data into the empty directory. The caller sets the
	// owner of the files.
	Restore(ctx context.Context, into *os.Root) error
	// Save reads the directory after the browser has exited with code 0, with its
	// display still running, and all its processes have ended. It must limit its
	// own duration.
	Save(ctx context.Context, root *os.Root) error
}

// restore restores the saved data into the data directory.
func (b *Browser) restore(ctx context.Context) error {
	if b.spec.Data == nil {
		return nil
	}
	if err := b.spec.Data.Restore(ctx, b.dataDir); err != nil {
		return err
	}
	// Locks of an earlier run would prevent the start.
	for _, name := range []string{"SingletonLock", "SingletonSocket", "SingletonCookie", "DevToolsActivePort"} {
		if err := b.dataDir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restore data: %w", err)
		}
	}
	if err := b.chownAll(b.dataDir); err != nil {
		return fmt.Errorf("restore data: %w", err)
	}
	return nil
}

// chownAll gives the browser's user a directory with all its contents.
func (b *Browser) chownAll(root *os.Root) error {
	if b.uid < 0 {
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, b.uid, b.uid)
	})
}

// save saves the data after a clean exit.
func (b *Browser) save() {
	if b.spec.Data == nil || b.proc == nil {
		return
	}
	b.saveErr = fmt.Errorf("%w: %s", ErrUncleanExit, b.exit)
	if b.exit.Code == 0 && !b.exit.DisplayLost {
		b.saveErr = b.spec.Data.Save(context.Background(), b.dataDir)
	}
	if b.saveErr != nil {
		b.l.log.Warn("browser data not saved", "launchId", b.LaunchID, "error", b.saveErr)
	}
}

// SaveError returns why the data of a browser was not saved; nil if it was. It
// is valid after Kill has returned nil. Errors: ErrUncleanExit, those of
// Data.Save.
func (b *Browser) SaveError() error {
	select {
	case <-b.cleaned:
		return b.saveErr
	default:
		return errors.New("the browser's data is not saved yet")
	}
}
