package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Names in the directory of a launch.
const (
	sharedDir    = "shared" // what the browser sees
	downloadsDir = "downloads"
	uploadsDir   = "uploads"
	tempDir      = "temp"
	indexName    = "index.json"
	recordingDir = "recording"
)

// DownloadsBelow is the directory of downloads, relative to the shared directory.
const DownloadsBelow = downloadsDir

// TempBelow is the directory for what a server of a client protocol stores while the launch
// runs, relative to the shared directory. It belongs to the browser's user.
const TempBelow = tempDir

// maxFiles limits the files of a launch. Beyond it downloads are canceled.
const maxFiles = 10_000

// Launch holds the files of one launch.
type Launch struct {
	ID string

	store   *Store
	dir     string
	uid     int    // of the browser; -1: the worker's own
	visible string // path of the shared directory, as the browser sees it

	mu        sync.Mutex
	files     map[string]*File
	discarded map[string]bool // live downloads that are not in files; what they store is removed
	changed   chan struct{}   // closed at the next change
	cancel    func(id string)
	sync      func(context.Context)
	observer  func(File)
	ended     bool
	session   uuid.UUID // zero until Bind
	keep      bool
	records   bool      // the launch has a recording, which outlives it
	expires   time.Time // of kept files after the end
	usage     usage

	closed chan struct{} // closed with the end of Close
}

// SharedDir returns the directory that the browser of a launch shares with the worker.
func (s *Store) SharedDir(launchID string) string { return filepath.Join(s.Dir, launchID, sharedDir) }

func (s *Store) newLaunch(id string) *Launch {
	return &Launch{
		ID: id, store: s, dir: filepath.Join(s.Dir, id), files: map[string]*File{}, discarded: map[string]bool{}, changed: make(chan struct{}),
		cancel: func(string) {}, sync: func(context.Context) {}, observer: func(File) {}, closed: make(chan struct{}),
	}
}

// Create creates the directory of a launch. Downloads belong to uid, unless that is
// negative. visible is the path of SharedDir as the browser sees it.
func (s *Store) Create(launchID string, uid int, visible string) (_ *Launch, err error) {
	l := s.newLaunch(launchID)
	l.uid, l.visible = uid, visible
	if err := os.Mkdir(l.dir, 0o711); err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("files: %w", err), os.RemoveAll(l.dir))
		}
	}()
	for _, dir := range []string{l.Shared(), l.path(uploadsDir)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{downloadsDir, tempDir} {
		if err := os.Mkdir(l.path(dir), 0o700); err != nil {
			return nil, err
		}
		if uid < 0 {
			continue
		}
		if err := os.Chown(l.path(dir), uid, uid); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Shared returns the directory that the browser shares with the worker.
func (l *Launch) Shared() string { return filepath.Join(l.dir, sharedDir) }

// path returns a path in the shared directory.
func (l *Launch) path(below ...string) string {
	return filepath.Join(append([]string{l.dir, sharedDir}, below...)...)
}

// Bind names the session of the launch, and says whether its files outlive it. After an
// error the launch has no session. Error: ErrEnded.
func (l *Launch) Bind(session uuid.UUID, keep bool) error {
	l.store.register(session, l)
	err := l.bind(session, keep && l.store.Keeps())
	if err != nil {
		l.store.forget(session)
	}
	return err
}

func (l *Launch) bind(session uuid.UUID, keep bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended { // Close does not know the session
		return ErrEnded
	}
	l.session, l.keep = session, keep
	err := l.save()
	if err != nil {
		l.session, l.keep = uuid.Nil, false
	}
	return err
}

// Connect sets the functions of the browser: cancel cancels a download and must not block,
// sync waits until the downloads that have begun are recorded.
func (l *Launch) Connect(cancel func(id string), sync func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel, l.sync = cancel, sync
}

// Observe has observe called when a download begins, when it ends and when its checksum is
// known, and now for those that have started. It must not block.
func (l *Launch) Observe(observe func(File)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observer = observe
	for _, f := range l.files {
		if f.Source == Download {
			observe(*f)
		}
	}
}

// Sync waits until the downloads are recorded that the browser has announced to clients.
func (l *Launch) Sync(ctx context.Context) {
	l.mu.Lock()
	sync := l.sync
	l.mu.Unlock()
	sync(ctx)
}

// notify wakes those who wait for a change. The caller holds the lock.
func (l *Launch) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// List returns the files, the newest first. A name selects files of exactly this name.
func (l *Launch) List(name string) []File {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []File
	for _, f := range l.files {
		if name == "" || f.Name == name {
			found = append(found, l.measured(f))
		}
	}
	slices.SortFunc(found, func(a, b File) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return found
}

// measured returns a copy of a file with its present size. The caller holds the lock.
func (l *Launch) measured(f *File) File {
	now := *f
	if f.State != InProgress || f.Source != Download {
		return now
	}
	if opened, err := l.open(f); err == nil {
		now.Size = opened.size
		_ = opened.Close()
	}
	return now
}

// Get returns a file. Error: ErrNotFound.
func (l *Launch) Get(id string) (File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	if f == nil {
		return File{}, ErrNotFound
	}
	return l.measured(f), nil
}

// Delete removes a file, and cancels a download in progress. Error: ErrNotFound.
func (l *Launch) Delete(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	if f == nil {
		return ErrNotFound
	}
	if f.State == InProgress {
		f.State = Canceled
		l.cancel(id)
		l.observer(*f)
	}
	if f.live { // the browser may complete it before it learns of that
		l.discarded[id] = true
	}
	l.removeContent(f)
	delete(l.files, id)
	l.notify()
	return l.save()
}

// Close ends the files of a launch after its browser has ended. They are removed unless
// they are kept.
func (l *Launch) Close() error {
	defer close(l.closed)
	l.mu.Lock()
	l.ended = true
	for _, f := range l.files {
		if f.State == InProgress {
			f.State = Failed
			l.removeContent(f)
			l.observer(*f)
		}
	}
	for id := range l.discarded {
		l.removeDiscarded(id, "")
	}
	l.notify()
	keep, session := l.keep || l.records, l.session
	l.mu.Unlock()
	if keep {
		return errors.Join(os.RemoveAll(l.path(tempDir)), l.dropUnkept(), l.retain())
	}
	l.store.forget(session)
	return l.removeAll()
}

// removeAll removes the launch from the disk, and prevents that its index is saved again.
func (l *Launch) removeAll() error {
	l.mu.Lock()
	l.keep, l.records = false, false
	l.mu.Unlock()
	if err := os.RemoveAll(l.dir); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}
