package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

const journalSuffix = ".json"

// readJournal reads the entries of an earlier worker, and removes the damaged ones.
func (s *Store) readJournal() error {
	if err := os.MkdirAll(s.Journal, 0o700); err != nil {
		return err
	}
	files, err := os.ReadDir(s.Journal)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(s.Journal, f.Name())
		e := new(entry)
		raw, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(raw, e)
		}
		if err == nil && e.Session.String()+journalSuffix != f.Name() {
			err = errors.New("it is of another session")
		}
		if err != nil {
			if strings.HasSuffix(f.Name(), journalSuffix) {
				s.Log.Warn("an entry of the journal of recordings is damaged; its recording stays where it is", "file", f.Name(), "error", err)
			}
			_ = os.Remove(name) // otherwise the next start removes it
			continue
		}
		s.entries[e.Session] = e
	}
	return nil
}

// save writes an entry.
func (s *Store) save(e *entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	name := s.journalName(e.Session)
	if err := os.WriteFile(name+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func (s *Store) journalName(session uuid.UUID) string {
	return filepath.Join(s.Journal, session.String()+journalSuffix)
}

// forget removes a recording from the journal.
func (s *Store) forget(session uuid.UUID) {
	s.mu.Lock()
	delete(s.entries, session)
	s.mu.Unlock()
	if err := os.Remove(s.journalName(session)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Log.Error("failed to remove an entry of the journal of recordings", "sessionId", session, "error", err)
	}
}

// markStored records that a recording is stored.
func (s *Store) markStored(session uuid.UUID, info Info) error {
	s.mu.Lock()
	e := s.entries[session]
	if e == nil {
		s.mu.Unlock()
		return ErrNone
	}
	next := *e
	next.Info, next.StoredAt, next.Expires = info, s.Clock.Now(), info.EndedAt.Add(s.Retention)
	s.mu.Unlock()
	if err := s.save(&next); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[session] = &next
	return nil
}

// forgetExpired forgets the recordings whose retention has passed.
func (s *Store) forgetExpired() {
	s.mu.Lock()
	var expired []uuid.UUID
	for session, e := range s.entries {
		if e.expired(s.Clock.Now()) {
			expired = append(expired, session)
		}
	}
	s.mu.Unlock()
	for _, session := range expired {
		s.forget(session)
	}
}
