package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/session"
)

// entry is what has to be told of one session: its start, then its end.
type entry struct {
	Start        *Start `json:"start,omitempty"`
	End          *End   `json:"end,omitempty"`
	EndIfRefused bool   `json:"-"` // a refusal of the start ends the browser

	leftover bool // an earlier boot left it
	carried  bool // the end travelled with an authorize that was answered
	order    int
}

func (e entry) session() uuid.UUID {
	if e.Start != nil {
		return e.Start.SessionID
	}
	return e.End.SessionID
}

// key is a caller's; zero for the worker's own.
func (e entry) key() session.OrganizationKey {
	if e.Start != nil {
		return e.Start.OrganizationKey
	}
	return e.End.OrganizationKey
}

// maxCallerEntries bounds how many entries of callers' keys wait: they are as many as
// their sessions end while the cloud is away.
const maxCallerEntries = 10_000

// newSuffix marks a file that is being written.
const newSuffix = ".new"

var errFull = errors.New("too many reports of callers' keys wait")

// journalFiles keeps the entries that wait, in memory and, where the key is the
// worker's own, in a file each.
type journalFiles struct {
	dir  string
	wake chan struct{}        // something was put
	sync func(*os.File) error // brings a file, or the names in a directory, to the disk

	disk          sync.Mutex // orders the writes; taken before mu, which nobody holds while it waits for the disk
	mu            sync.Mutex
	entries       map[uuid.UUID]entry
	callerEntries int // how many of them are of callers' keys
	count         int

	rejected int // reports that nobody can tell the cloud
}

// openJournal takes up what an earlier boot left. A browser dies with its
// worker, so only sessions that have ended are still worth telling, with their
// starts: others are released by the new boot's first heartbeat.
func openJournal(dir string, logger *slog.Logger) (*journalFiles, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal of reports: %w", err)
	}
	j := &journalFiles{dir: dir, wake: make(chan struct{}, 1), sync: (*os.File).Sync, entries: map[uuid.UUID]entry{}}
	if err := j.load(logger); err != nil {
		return nil, err
	}
	j.signal()
	return j, nil
}

// put adds an entry, or an end to the start that waits. It waits at once for who
// looks, and survives a restart when put returns.
func (j *journalFiles) put(e entry) error {
	j.disk.Lock()
	defer j.disk.Unlock()
	e, err := j.add(e)
	if err != nil {
		return err
	}
	return j.write(e)
}

// addSession puts an entry in memory, and returns it as it is then.
func (j *journalFiles) add(e entry) (entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	id := e.session()
	if waiting, ok := j.entries[id]; ok {
		if e.Start == nil {
			e.Start, e.EndIfRefused = waiting.Start, waiting.EndIfRefused
		}
		if e.End == nil {
			e.End = waiting.End
		}
	}
	if _, waits := j.entries[id]; !waits && !e.key().IsZero() {
		if j.callerEntries >= maxCallerEntries {
			return entry{}, errFull
		}
		j.callerEntries++
	}
	e.order = j.count
	j.count++
	j.entries[id] = e
	j.signal()
	return e, nil
}

// accepted takes what was told out of the entry of a session.
func (j *journalFiles) markDelivered(id uuid.UUID, start, end bool) error {
	j.disk.Lock()
	defer j.disk.Unlock()
	e, left, ok := j.remove(id, start, end)
	switch {
	case !ok:
		return nil
	case left:
		return j.write(e)
	case !e.key().IsZero():
		return nil
	}
	if err := os.Remove(j.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a told report: %w", err)
	}
	return nil
}

// remove takes what was told out of an entry in memory. It returns the entry as
// it was, or what is left of it.
func (j *journalFiles) remove(id uuid.UUID, start, end bool) (e entry, left, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	was, ok := j.entries[id]
	if !ok {
		return entry{}, false, false
	}
	e = was
	if start {
		e.Start = nil
	}
	if end {
		e.End = nil
	}
	if e.Start != nil || e.End != nil {
		j.entries[id] = e
		return e, true, true
	}
	delete(j.entries, id)
	if !was.key().IsZero() {
		j.callerEntries--
	}
	return was, false, true
}

// pending returns the entries in the order in which they came.
func (j *journalFiles) pending() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []entry
	for _, e := range j.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.order, b.order) })
	return all
}

// moveToBack puts the entry of a session behind the others: one that the cloud
// chokes on must not hold them up.
func (j *journalFiles) moveToBack(id uuid.UUID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e, ok := j.entries[id]; ok {
		e.order = j.count
		j.count++
		j.entries[id] = e
	}
}

// leftovers returns what an earlier boot left.
func (j *journalFiles) leftovers() []entry {
	return slices.DeleteFunc(j.pending(), func(e entry) bool { return !e.leftover })
}

// keys returns the callers' keys that something waits for.
func (j *journalFiles) keys() []session.OrganizationKey {
	var found []session.OrganizationKey
	for _, e := range j.pending() {
		if !e.key().IsZero() {
			found = append(found, e.key())
		}
	}
	return found
}

func (j *journalFiles) has(id uuid.UUID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.entries[id]
	return ok
}

func (j *journalFiles) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *journalFiles) file(id uuid.UUID) string { return filepath.Join(j.dir, id.String()+".json") }

// write puts an entry on disk, whole or not at all, unless it needs a caller's
// key, and to stay when the machine loses its power. The caller holds disk.
func (j *journalFiles) write(e entry) error {
	if !e.key().IsZero() {
		return nil
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(e); err != nil {
		return fmt.Errorf("encode a report: %w", err)
	}
	temporary := j.file(e.session()) + newSuffix
	err := j.create(temporary, text.Bytes())
	if err == nil {
		err = os.Rename(temporary, j.file(e.session()))
	}
	if err == nil {
		err = j.syncDir()
	}
	if err != nil {
		_ = os.Remove(temporary)
		return fmt.Errorf("write a report: %w", err)
	}
	return nil
}

func (j *journalFiles) create(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = j.sync(file)
	}
	return errors.Join(err, file.Close())
}

func (j *journalFiles) syncDir() error {
	dir, err := os.Open(j.dir)
	if err != nil {
		return err
	}
	return errors.Join(j.sync(dir), dir.Close())
}
