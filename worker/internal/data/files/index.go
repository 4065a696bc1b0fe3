package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	expiry := l.expiry()
	return !expiry.IsZero() && !now.Before(expiry)
}

// expiry returns when the files expire; zero before the launch has ended.
func (l *Launch) expiry() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// load reads the files that an earlier worker has kept.
func (s *Store) load(launchID string) (*Launch, error) {
	l := s.newLaunch(launchID)
	l.ended, l.keep = true, true
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
	for _, k := range s.keptLaunches() {
		expired := !now.Before(k.expires)
		if !expired && s.spare() >= 0 {
			return // the others expire later
		}
		if !expired {
			s.Log.Warn("kept files removed early: the disk is full", "launchId", k.launch.ID, "sessionId", k.session)
		}
		s.forget(k.session)
		if err := k.launch.removeAll(); err != nil {
			s.Log.Error("failed to remove kept files", "launchId", k.launch.ID, "error", err)
		}
	}
}

// keptLaunch is an ended launch whose files or recording are kept.
type keptLaunch struct {
	launch  *Launch
	session uuid.UUID
	expires time.Time
}

// keptLaunches returns the launches that are kept, in the order in which they expire.
func (s *Store) keptLaunches() []keptLaunch {
	s.mu.Lock()
	all := maps.Clone(s.sessions)
	s.mu.Unlock()
	var launches []keptLaunch
	for session, l := range all {
		if expires := l.expiry(); !expires.IsZero() {
			launches = append(launches, keptLaunch{l, session, expires})
		}
	}
	slices.SortFunc(launches, func(a, b keptLaunch) int { return a.expires.Compare(b.expires) })
	return launches
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
