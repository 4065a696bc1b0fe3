package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
)

// index is what is stored about the files that outlive their launch.
type index struct {
	LaunchID string    `json:"launchId"`
	Session  uuid.UUID `json:"sessionId"`
	UID      int       `json:"uid"`
	Expires  time.Time `json:"expiresAt"` // zero while the launch runs
	Files    []*File   `json:"files"`

	Records       bool `json:"records,omitempty"`
	RecordingOnly bool `json:"recordingOnly,omitempty"` // the files do not outlive the launch
}

// save writes the index of files that are kept. The caller holds the lock.
func (l *Launch) save() error {
	if !l.keep && !l.records {
		return nil
	}
	all := index{LaunchID: l.ID, Session: l.session, UID: l.uid, Expires: l.expires, Records: l.records, RecordingOnly: !l.keep}
	if l.keep {
		for _, f := range l.files {
			all.Files = append(all.Files, f)
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	path := filepath.Join(l.dir, indexName)
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}

// retain keeps the files after the end of the launch. No other user can reach them then.
func (l *Launch) retain() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expires = l.store.Clock.Now().Add(l.store.Retention)
	return errors.Join(os.Chmod(l.dir, 0o700), l.save())
}

func (l *Launch) expired(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.expires.IsZero() && !now.Before(l.expires)
}

// load reads the files that an earlier worker has kept.
func (s *Store) load(launchID string) (*Launch, error) {
	l := &Launch{
		ID: launchID, store: s, dir: filepath.Join(s.Dir, launchID), files: map[string]*File{}, changed: make(chan struct{}),
		cancel: func(string) {}, sync: func(context.Context) {}, ended: true, keep: true, closed: make(chan struct{}),
	}
	close(l.closed)
	raw, err := os.ReadFile(filepath.Join(l.dir, indexName))
	if err != nil {
		return nil, err
	}
	var all index
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if all.LaunchID != launchID || all.Session == uuid.Nil {
		return nil, errors.New("the index is of another launch")
	}
	l.session, l.uid, l.expires = all.Session, all.UID, all.Expires
	partial, _ := filepath.Glob(filepath.Join(l.dir, "partial-*"))
	for _, path := range partial {
		_ = os.Remove(path)
	}
	for _, f := range all.Files {
		if f == nil || !idPattern().MatchString(f.ID) {
			continue
		}
		if f.State == InProgress {
			f.State, f.Size = Failed, 0
			l.removeContent(f)
		}
		l.files[f.ID] = f
	}
	l.keep, l.records = !all.RecordingOnly, all.Records
	if l.expires.IsZero() { // the worker was killed
		return l, errors.Join(l.dropUnkept(), l.retain())
	}
	return l, nil
}

// Sweep removes kept files that have expired and, while the disk has less free space
// than it must have, the oldest others.
func (s *Store) Sweep() {
	now := s.Clock.Now()
	s.mu.Lock()
	var kept []*Launch
	for _, l := range s.sessions {
		if _, runs := s.launches[l.ID]; !runs {
			kept = append(kept, l)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(kept, func(a, b *Launch) int { return a.expires.Compare(b.expires) })
	for _, l := range kept {
		expired := l.expired(now)
		if !expired && s.hasSpace(0) {
			return
		}
		if !expired {
			s.Log.Warn("kept files removed early: the disk is full", "launchId", l.ID, "sessionId", l.session)
		}
		s.mu.Lock()
		delete(s.sessions, l.session)
		s.mu.Unlock()
		if err := os.RemoveAll(l.dir); err != nil {
			s.Log.Error("failed to remove kept files", "launchId", l.ID, "error", err)
		}
	}
}

// sweepInterval is how often Run sweeps.
const sweepInterval = time.Minute

// Run sweeps until done is closed.
func (s *Store) Run(done <-chan struct{}) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.Sweep()
		case <-done:
			return
		}
	}
}
