package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// rejectedSuffix marks what nobody can tell the cloud: a report that it has refused
// for good, or a file that can't be read. It is the operator's to look at and to
// remove.
const rejectedSuffix = ".rejected"

// maxRejected bounds how many such files are kept; more are counted and logged alone.
const maxRejected = 1000

// load reads what an earlier boot left. What was written by half goes: the report
// it was to replace is still there, or nothing ever counted on it.
func (j *journalFiles) load(logger *slog.Logger) error {
	half, err := filepath.Glob(filepath.Join(j.dir, "*.json"+newSuffix))
	if err != nil {
		return fmt.Errorf("list the journal of reports: %w", err)
	}
	for _, file := range half {
		logger.Warn("a report that was not written to its end is removed", "file", file)
		_ = os.Remove(file)
	}
	earlier, err := filepath.Glob(filepath.Join(j.dir, "*.json"+rejectedSuffix))
	if err != nil {
		return fmt.Errorf("list the journal of reports: %w", err)
	}
	j.rejected = len(earlier)
	files, err := filepath.Glob(filepath.Join(j.dir, "*.json"))
	if err != nil {
		return fmt.Errorf("list the journal of reports: %w", err)
	}
	for _, file := range files {
		switch e, err := readEntry(file); {
		case err != nil:
			logger.Error("a report of an earlier boot can't be read, and is set aside", "file", file+rejectedSuffix, "error", err)
			j.setAside(file)
		case e.End == nil: // its browser died with its worker
			_ = os.Remove(file)
		default:
			e.leftover, e.order = true, j.count
			j.count++
			j.entries[e.session()] = e
		}
	}
	return nil
}

// readEntry reads a file, which must be of the session that its name says: another
// could never be removed once it was told.
func readEntry(file string) (entry, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return entry{}, err
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return entry{}, err
	}
	if e.Start == nil && e.End == nil {
		return entry{}, fmt.Errorf("it holds no report")
	}
	name := filepath.Base(file)
	for _, id := range e.sessions() {
		if id.String()+".json" != name {
			return entry{}, fmt.Errorf("it is of session %s", id)
		}
	}
	return e, nil
}

// sessions are those that the two reports are of.
func (e entry) sessions() (ids []uuid.UUID) {
	if e.Start != nil {
		ids = append(ids, e.Start.SessionID)
	}
	if e.End != nil {
		ids = append(ids, e.End.SessionID)
	}
	return ids
}

// setAside renames a file that can't be told, or removes it when there are too many.
func (j *journalFiles) setAside(file string) {
	j.rejected++
	if j.rejected > maxRejected || os.Rename(file, file+rejectedSuffix) != nil {
		_ = os.Remove(file)
	}
}

// reject keeps a report that the cloud has refused, for the operator. It is still
// to be taken out by told. Of a caller's key it is counted alone.
func (j *journalFiles) reject(what string, e entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rejected++
	if !e.key().IsZero() || j.rejected > maxRejected {
		return nil
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(e); err != nil {
		return fmt.Errorf("encode a report: %w", err)
	}
	name := filepath.Join(j.dir, e.session().String()+"-"+what+".json"+rejectedSuffix)
	if err := j.create(name, text.Bytes()); err != nil {
		return fmt.Errorf("set a report aside: %w", err)
	}
	return nil
}

// Counts returns how many sessions wait to be told of, and how many reports could
// not be told: the files that were set aside, those of earlier boots included, and
// what this boot met beyond.
func (r *Reporter) Counts() (waiting, rejected int) {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	return len(r.journal.entries), r.journal.rejected
}
