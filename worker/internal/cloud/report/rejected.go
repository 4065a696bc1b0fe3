package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

// rejectedSuffix marks an undeliverable report: one that the cloud finally
// refused, or a corrupt file. The operator inspects and removes it.
const rejectedSuffix = ".rejected"

// maxRejected bounds the files that are kept. Further reports are only counted
// and logged.
const maxRejected = 1000

// load reads the entries of an earlier boot. It removes partially written
// files: either the report that they would replace still exists, or it was
// never acknowledged.
func (j *journal) load(logger *slog.Logger) error {
	files, err := os.ReadDir(j.dir) // not filepath.Glob: the directory's name may be a pattern
	if err != nil {
		return fmt.Errorf("list the report journal: %w", err)
	}
	var reports []string
	for _, f := range files {
		file := filepath.Join(j.dir, f.Name())
		switch {
		case strings.HasSuffix(file, ".json"+newSuffix):
			logger.Warn("removing a partially written report", "file", file)
			_ = os.Remove(file)
		case strings.HasSuffix(file, ".json"+rejectedSuffix):
			j.rejected++
		case strings.HasSuffix(file, ".json"):
			reports = append(reports, file)
		}
	}
	for _, file := range reports {
		switch e, err := readEntry(file); {
		case err != nil:
			logger.Error("report of an earlier boot is corrupt, setting it aside", "file", file+rejectedSuffix, "error", err)
			j.setAside(file)
		case e.End == nil && e.Commit == nil: // its browser died with its worker
			_ = os.Remove(file)
		default:
			e.leftover, e.order = true, j.count
			j.count++
			j.entries[e.session()] = e
		}
	}
	return nil
}

// readEntry reads a file. The session must match the file name, or the file
// could not be removed after delivery.
func readEntry(file string) (entry, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return entry{}, err
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return entry{}, err
	}
	if len(e.sessions()) == 0 {
		return entry{}, fmt.Errorf("the file contains no report")
	}
	name := filepath.Base(file)
	for _, id := range e.sessions() {
		if id.String()+".json" != name {
			return entry{}, fmt.Errorf("the file belongs to session %s", id)
		}
	}
	return e, nil
}

// sessions returns the session of each report.
func (e entry) sessions() (ids []uuid.UUID) {
	if e.Start != nil {
		ids = append(ids, e.Start.SessionID)
	}
	if e.Commit != nil {
		ids = append(ids, e.Commit.SessionID)
	}
	if e.End != nil {
		ids = append(ids, e.End.SessionID)
	}
	return ids
}

// setAside renames a corrupt file, or removes it if there are too many.
func (j *journal) setAside(file string) {
	j.rejected++
	if j.rejected > maxRejected || os.Rename(file, file+rejectedSuffix) != nil {
		_ = os.Remove(file)
	}
}

// reject saves a refused report for the operator. The caller still marks it
// delivered. Reports of callers' keys are only counted.
func (j *journal) reject(what string, e entry) error {
	j.mu.Lock()
	j.rejected++
	full := j.rejected > maxRejected
	j.mu.Unlock()
	if !e.key().IsZero() || full {
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

// Counts returns the number of sessions with pending reports and of
// undeliverable reports, including the files of earlier boots.
func (r *Reporter) Counts() (waiting, rejected int) {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	return len(r.journal.entries), r.journal.rejected
}

// OldestPending returns the time of the oldest report that the cloud has not
// acknowledged; the zero time if there is none.
func (r *Reporter) OldestPending() (oldest time.Time) {
	for _, e := range r.journal.pending() {
		t := e.reportTime()
		if oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
	}
	return oldest
}

// reportTime returns the time of the first pending report.
func (e entry) reportTime() time.Time {
	switch {
	case e.Start != nil && e.Start.Change && len(e.Start.Events) > 0:
		return e.Start.Events[0].At
	case e.Start != nil:
		return e.Start.At
	case e.Commit != nil:
		return e.Commit.At
	}
	return e.End.At
}
