package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/browser-svc/svc/shared/clock"
)

const (
	suffix        = ".jsonl"
	sweepInterval = time.Minute
)

// Options configures a Store.
type Options struct {
	Dir       string        // created if needed
	Retention time.Duration // of a log after its last entry
	Clock     clock.Clock
	Logger    *slog.Logger
	Metrics   *Metrics // nil: not exported
}

// Store has the logs of the sessions of this machine: SESSION_ID.jsonl.
type Store struct {
	Options

	mu   sync.Mutex
	open map[string]bool // names of files that are written
}

// Open returns a Store.
func Open(o Options) (*Store, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return &Store{Options: o, open: map[string]bool{}}, nil
}

// Create creates the log of a session, with its first entry. The caller must close it.
func (s *Store) Create(key Key, timestamp time.Time, start Start) (*Log, error) {
	name := start.SessionID.String() + suffix
	path := filepath.Join(s.Dir, name)
	s.setOpen(name, true)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		s.setOpen(name, false)
		return nil, fmt.Errorf("audit: %w", err)
	}
	c := &chain{file: file, key: key, written: map[Kind]int64{}}
	start.Key = key.id
	if err := errors.Join(c.write(timestamp, start, hashField, hash), c.err); err != nil {
		s.setOpen(name, false)
		return nil, errors.Join(fmt.Errorf("audit: %w", err), file.Close(), os.Remove(path))
	}
	logger := s.Logger.With("sessionId", start.SessionID)
	return newLog(c, logger, func(c *chain, err error) {
		s.setOpen(name, false)
		s.Metrics.count(c.lostTotal, err)
		if err != nil {
			logger.Error("failed to seal an activity log", "error", err)
		}
	}), nil
}

func (s *Store) setOpen(name string, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.open[name] = true
	} else {
		delete(s.open, name)
	}
}

func (s *Store) isOpen(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[name]
}

// Run removes expired logs until done is closed.
func (s *Store) Run(done <-chan struct{}) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		s.Sweep()
		select {
		case <-ticker.C:
		case <-done:
			return
		}
	}
}

// Sweep removes the logs that have expired. It touches no other files.
func (s *Store) Sweep() {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		s.Logger.Error("failed to look for expired activity logs", "error", err)
		return
	}
	for _, e := range entries {
		id, isLog := strings.CutSuffix(e.Name(), suffix)
		if !isLog || uuid.Validate(id) != nil || s.isOpen(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err == nil && s.Clock.Now().Sub(info.ModTime()) >= s.Retention {
			err = os.Remove(filepath.Join(s.Dir, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.Logger.Error("failed to remove an activity log", "file", e.Name(), "error", err)
		}
	}
}

// Metrics counts what is missing in logs.
type Metrics struct{ lost, unsealed prometheus.Counter }

// NewMetrics registers the metrics; nil registers none.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "svc_worker_audit_lost_total",
			Help: "Entries of activity logs (AUDIT) that were not written.",
		}),
		unsealed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "svc_worker_audit_unsealed_total",
			Help: "Activity logs of ended sessions that could not be sealed.",
		}),
	}
	if registry != nil {
		registry.MustRegister(m.lost, m.unsealed)
	}
	return m
}

func (m *Metrics) count(lost int64, err error) {
	m.lost.Add(float64(lost))
	if err != nil {
		m.unsealed.Inc()
	}
}
