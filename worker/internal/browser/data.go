package browser

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrUncleanExit means that a browser's data are not saved since it did not close by
// itself, or lost its display: they may be in any state.
var ErrUncleanExit = errors.New("the browser did not close by itself")

// Data fills a launch's data directory before the start, and keeps it after a
// clean end.
type Data interface {
	// Restore writes what is kept into the empty directory. Whose the files are
	// is not its concern.
	Restore(ctx context.Context, into *os.Root) error
	// Save reads the directory of a browser that has exited with code 0, its display
	// still being there and all of its processes having ended. It must end by itself; how long it waits for
	// others is its concern.
	Save(ctx context.Context, from *os.Root) error
}

// restore fills the data directory with what is kept.
func (b *Browser) restore(ctx context.Context) error {
	if b.spec.Data == nil {
		return nil
	}
	if err := b.spec.Data.Restore(ctx, b.dataDir); err != nil {
		return err
	}
	// What an earlier run left there as its lock goes.
	for _, name := range []string{"SingletonLock", "SingletonSocket", "SingletonCookie", "DevToolsActivePort"} {
		if err := b.dataDir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("kept data: %w", err)
		}
	}
	if b.uid < 0 {
		return nil
	}
	err := fs.WalkDir(b.dataDir.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return b.dataDir.Lchown(path, b.uid, b.uid)
	})
	if err != nil {
		return fmt.Errorf("kept data: %w", err)
	}
	return nil
}

// save keeps the data of a browser that has come to a clean end.
func (b *Browser) save() {
	if b.spec.Data == nil || b.proc == nil {
		return
	}
	b.saveErr = fmt.Errorf("%w: %s", ErrUncleanExit, b.exit)
	if b.exit.Code == 0 && !b.exit.DisplayLost {
		b.saveErr = b.spec.Data.Save(context.Background(), b.dataDir)
	}
	if b.saveErr != nil {
		b.l.log.Warn("browser data not kept", "launchId", b.LaunchID, "error", b.saveErr)
	}
}

// SaveError says why the data of a browser whose data is kept were not saved; nil
// when they were. It is valid after a Kill that returned nil. Errors:
// ErrUncleanExit, those of Data.Save.
func (b *Browser) SaveError() error {
	select {
	case <-b.cleaned:
		return b.saveErr
	default:
		return errors.New("the browser's data are not saved yet")
	}
}
