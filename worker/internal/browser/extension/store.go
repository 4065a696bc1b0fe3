package extension

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
)

const (
	infoFile  = "extension.json"
	filesDir  = "files"
	newPrefix = ".new-"
)

// Options configures a Store. Dir and Clock are required.
type Options struct {
	Dir    string // created if needed
	Clock  clock.Clock
	Logger *slog.Logger // discarded when nil
}

// Store holds the extensions of this machine. A directory has one store at a time.
type Store struct {
	opts Options

	mu  sync.Mutex
	all map[string]*stored // by id
}

// stored is an extension with its use.
type stored struct {
	Extension
	uses    int  // running launches
	deleted bool // the files remain until the last use has ended
}

// Open returns the store in a directory. It removes what an interrupted upload or a
// deletion has left.
func Open(opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{opts: opts, all: map[string]*stored{}}
	if err := os.MkdirAll(opts.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("extensions: %w", err)
	}
	entries, err := os.ReadDir(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("extensions: %w", err)
	}
	for _, entry := range entries {
		found, err := readInfo(filepath.Join(opts.Dir, entry.Name()))
		if err == nil && found.ID == entry.Name() {
			s.all[found.ID] = &stored{Extension: found}
			continue
		}
		opts.Logger.Info("removing an incomplete extension", "name", entry.Name())
		if err := os.RemoveAll(filepath.Join(opts.Dir, entry.Name())); err != nil {
			return nil, fmt.Errorf("extensions: %w", err)
		}
	}
	return s, nil
}

func readInfo(dir string) (found Extension, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, infoFile))
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(raw, &found)
}

// writeInfo writes the description of an extension, which makes it part of the store.
func writeInfo(dir string, e Extension) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, newPrefix+infoFile)
	if err := os.WriteFile(temporary, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, infoFile))
}

// Add stores a package: a zip archive or a CRX3 file. A package that is stored already
// is returned unchanged. Errors: Validation, TooLarge, those of the reader.
func (s *Store) Add(ctx context.Context, packed io.Reader) (_ Extension, err error) {
	dir, err := os.MkdirTemp(s.opts.Dir, newPrefix)
	if err != nil {
		return Extension{}, fmt.Errorf("add extension: %w", err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			s.opts.Logger.Error("failed to remove a temporary directory", "error", err)
		}
	}()
	file, id, size, err := receive(filepath.Join(dir, "package"), packed)
	if err != nil {
		return Extension{}, err
	}
	defer file.Close()
	if found, err := s.Get(id); err == nil {
		return found, nil
	}
	whole := filepath.Join(dir, id)
	if err := errors.Join(os.Mkdir(whole, 0o755), os.Chmod(whole, 0o755), os.Mkdir(filepath.Join(whole, filesDir), 0o755)); err != nil {
		return Extension{}, fmt.Errorf("add extension: %w", err)
	}
	root, err := os.OpenRoot(filepath.Join(whole, filesDir))
	if err != nil {
		return Extension{}, fmt.Errorf("add extension: %w", err)
	}
	defer root.Close()
	extension, err := unpack(ctx, file, size, id, root)
	if err != nil {
		return Extension{}, fmt.Errorf("add extension: %w", err)
	}
	extension.CreatedAt = s.opts.Clock.Now()
	return s.keep(whole, extension)
}

// receive writes a package to a file.
func receive(path string, packed io.Reader) (file *os.File, id string, size int64, err error) {
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", 0, fmt.Errorf("add extension: %w", err)
	}
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(file, sum), io.LimitReader(packed, MaxPackage+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fault.Wrap(err, fault.Validation, "The request body is incomplete.", fault.Detail{Field: "body", Code: fault.Custom, Message: "is incomplete"})
	case err != nil:
		err = fmt.Errorf("read the extension: %w", err)
	case size > MaxPackage:
		err = fault.Oversized(nil, MaxPackage)
	}
	if err != nil {
		file.Close()
		return nil, "", 0, err
	}
	return file, hex.EncodeToString(sum.Sum(nil)), size, nil
}

// keep moves an unpacked extension into the store.
func (s *Store) keep(dir string, extension Extension) (Extension, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.dir(extension.ID)
	entry := s.all[extension.ID]
	switch {
	case entry != nil && !entry.deleted: // a concurrent upload
		return entry.Extension, nil
	case entry != nil: // a browser uses the files
		extension = entry.Extension
	case len(s.all) >= MaxExtensions:
		return Extension{}, invalidPackage("cannot be stored: this worker has %d extensions. Delete one first", MaxExtensions)
	default:
		if err := os.Rename(dir, own); err != nil {
			return Extension{}, fmt.Errorf("add extension: %w", err)
		}
		entry = &stored{}
	}
	if err := writeInfo(own, extension); err != nil {
		return Extension{}, fmt.Errorf("add extension: %w", err)
	}
	entry.Extension, entry.deleted = extension, false
	s.all[extension.ID] = entry
	return extension, nil
}

func (s *Store) dir(id string) string { return filepath.Join(s.opts.Dir, id) }

// Get returns an extension. Errors: NotFound.
func (s *Store) Get(id string) (Extension, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[id]
	if found == nil || found.deleted {
		return Extension{}, fault.Missing("extension")
	}
	return found.Extension, nil
}

// List returns all extensions, sorted by name.
func (s *Store) List() []Extension {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Extension{}
	for _, entry := range s.all {
		if !entry.deleted {
			all = append(all, entry.Extension)
		}
	}
	slices.SortFunc(all, func(a, b Extension) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Delete removes an extension from the list. Its files remain until the last browser
// that uses them has ended. Errors: NotFound.
func (s *Store) Delete(id string) error {
	unused, err := s.markDeleted(id)
	if err != nil {
		return err
	}
	return os.RemoveAll(unused) // nothing for ""
}

// markDeleted removes an extension from the list. It returns what removeUnused returns.
func (s *Store) markDeleted(id string) (unused string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[id]
	if found == nil || found.deleted {
		return "", fault.Missing("extension")
	}
	if err := os.Remove(filepath.Join(s.dir(id), infoFile)); err != nil {
		return "", fmt.Errorf("delete extension: %w", err)
	}
	found.deleted = true
	return s.removeUnused(found)
}

// removeUnused removes a deleted extension that no browser uses from the store. It returns a directory that the caller
// removes without the lock, or "". The directory gets another name, because the extension can be added again meanwhile.
func (s *Store) removeUnused(entry *stored) (unused string, err error) {
	if !entry.deleted || entry.uses > 0 {
		return "", nil
	}
	delete(s.all, entry.ID)
	unused = s.dir(newPrefix + rand.Text())
	if err := os.Rename(s.dir(entry.ID), unused); err != nil {
		return "", fmt.Errorf("remove extension: %w", err)
	}
	return unused, nil
}

// Use returns the directory of an extension's files, which exists until release is
// called. Errors: NotFound.
func (s *Store) Use(id string) (dir string, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[id]
	if found == nil || found.deleted {
		return "", nil, fault.Missing("extension")
	}
	found.uses++
	return filepath.Join(s.dir(id), filesDir), sync.OnceFunc(func() { s.release(found) }), nil
}

func (s *Store) release(entry *stored) {
	s.mu.Lock()
	entry.uses--
	unused, err := s.removeUnused(entry)
	s.mu.Unlock()
	if err := cmp.Or(err, os.RemoveAll(unused)); err != nil {
		s.opts.Logger.Error("failed to remove the files of an extension", "id", entry.ID, "error", err)
	}
}
