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

// entry holds the pending reports of one session: its start, then the saved version of its
// profile's data, then its end, which ends the lease of the data.
type entry struct {
	Start  *Start  `json:"start,omitempty"`
	Commit *Commit `json:"commit,omitempty"`
	End    *End    `json:"end,omitempty"`

	leftover bool // an earlier boot left it
	carried  bool // an answered authorize request carried the end
	order    int
}

func (e entry) session() uuid.UUID { return e.sessions()[0] }

// key returns the caller's key; zero for the worker's own.
func (e entry) key() session.OrganizationKey {
	switch {
	case e.Start != nil:
		return e.Start.OrganizationKey
	case e.Commit != nil:
		return e.Commit.OrganizationKey
	}
	return e.End.OrganizationKey
}

// maxCallerEntries bounds the pending entries of callers' keys, which
// accumulate while the cloud is unreachable.
const maxCallerEntries = 10_000

// newSuffix marks a file that is being written.
const newSuffix = ".new"

var errFull = errors.New("too many pending reports of callers' keys")

// journal keeps pending entries in memory and, for the worker's own key, in one
// file each.
type journal struct {
	dir  string
	wake chan struct{}        // signals that an entry was added
	sync func(*os.File) error // syncs a file or directory

	disk          sync.Mutex // serializes writes; locked before mu, which is never held during one
	mu            sync.Mutex
	entries       map[uuid.UUID]entry
	callerEntries int // number of entries of callers' keys
	count         int

	rejected int // reports that cannot be delivered
}

// openJournal loads the entries of an earlier boot. Browsers die with their
// worker, so it keeps only sessions that have ended or saved their data. The new
// boot's first heartbeat releases all others.
func openJournal(dir string, logger *slog.Logger) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the report journal: %w", err)
	}
	j := &journal{dir: dir, wake: make(chan struct{}, 1), sync: (*os.File).Sync, entries: map[uuid.UUID]entry{}}
	if err := j.load(logger); err != nil {
		return nil, err
	}
	j.signal()
	return j, nil
}

// put adds an entry, or reports to a pending entry. The entry is pending at once and is on disk when put returns.
func (j *journal) put(e entry) error {
	if err := j.add(e); err != nil {
		return err
	}
	return j.store(e)
}

// add adds an entry in memory.
func (j *journal) add(e entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	id := e.session()
	if waiting, ok := j.entries[id]; ok {
		e.Start = laterStart(waiting.Start, e.Start)
		e.Commit, e.End = cmp.Or(e.Commit, waiting.Commit), laterEnd(waiting.End, e.End)
	} else if !e.key().IsZero() {
		if j.callerEntries >= maxCallerEntries {
			return errFull
		}
		j.callerEntries++
	}
	e.order = j.count
	j.count++
	j.entries[id] = e
	j.signal()
	return nil
}

// laterStart returns the later of two reports of the same start; either may be nil.
func laterStart(a, b *Start) *Start {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	later := *a
	if b.Seq > a.Seq {
		later = *b
	}
	later.Change, later.Events = a.Change && b.Change, joinEvents(a.Events, b.Events)
	return &later
}

// laterEnd returns the later of two reports of the same end; either may be nil.
func laterEnd(a, b *End) *End {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	later := *b
	later.Events = joinEvents(a.Events, b.Events)
	return &later
}

// maxEvents bounds the events of one report. The contract has the same limit.
const maxEvents = 100

// joinEvents returns the last events of both lists.
func joinEvents(a, b []session.Event) []session.Event {
	all := slices.Concat(a, b)
	return all[max(0, len(all)-maxEvents):]
}

// hasLater reports whether there is an event after those that were delivered.
func hasLater(events, delivered []session.Event) bool {
	return len(events) > 0 && (len(delivered) == 0 || events[len(events)-1].ID != delivered[len(delivered)-1].ID)
}

// markDelivered removes delivered reports from the entry of their session.
func (j *journal) markDelivered(delivered entry) error {
	if !j.remove(delivered) {
		return nil
	}
	return j.store(delivered)
}

// remove removes delivered reports from an entry in memory. A later start stays, and so does
// a report with later events. It returns false if there is no entry.
func (j *journal) remove(delivered entry) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	id := delivered.session()
	e, ok := j.entries[id]
	if !ok {
		return false
	}
	if delivered.Start != nil && e.Start != nil && e.Start.Seq <= delivered.Start.Seq && !hasLater(e.Start.Events, delivered.Start.Events) {
		e.Start = nil
	}
	if delivered.Commit != nil {
		e.Commit = nil
	}
	if delivered.End != nil && e.End != nil && !hasLater(e.End.Events, delivered.End.Events) {
		e.End = nil
	}
	if len(e.sessions()) > 0 {
		j.entries[id] = e
		return true
	}
	delete(j.entries, id)
	if !delivered.key().IsZero() {
		j.callerEntries--
	}
	return true
}

// store writes the pending entry of a changed entry's session to disk, or removes the
// file if there is none. Entries of callers' keys are not written.
func (j *journal) store(changed entry) error {
	if !changed.key().IsZero() {
		return nil
	}
	j.disk.Lock()
	defer j.disk.Unlock()
	id := changed.session()
	if e, ok := j.get(id); ok {
		return j.write(e)
	}
	if err := os.Remove(j.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a delivered report: %w", err)
	}
	return nil
}

// pending returns the entries in order.
func (j *journal) pending() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []entry
	for _, e := range j.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.order, b.order) })
	return all
}

// moveToBack moves an entry behind the others, so that a failing report does
// not block them.
func (j *journal) moveToBack(id uuid.UUID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e, ok := j.entries[id]; ok {
		e.order = j.count
		j.count++
		j.entries[id] = e
	}
}

// leftovers returns the entries of an earlier boot.
func (j *journal) leftovers() []entry {
	return slices.DeleteFunc(j.pending(), func(e entry) bool { return !e.leftover })
}

// keys returns the callers' keys with pending entries.
func (j *journal) keys() []session.OrganizationKey {
	var found []session.OrganizationKey
	for _, e := range j.pending() {
		if !e.key().IsZero() {
			found = append(found, e.key())
		}
	}
	return found
}

func (j *journal) get(id uuid.UUID) (entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.entries[id]
	return e, ok
}

func (j *journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *journal) file(id uuid.UUID) string { return filepath.Join(j.dir, id.String()+".json") }

// write writes an entry to disk atomically and syncs it, so that it survives a
// power failure. The caller holds disk.
func (j *journal) write(e entry) error {
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

func (j *journal) create(name string, text []byte) error {
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

func (j *journal) syncDir() error {
	dir, err := os.Open(j.dir)
	if err != nil {
		return err
	}
	return errors.Join(j.sync(dir), dir.Close())
}
