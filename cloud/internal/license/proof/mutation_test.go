package proof_test

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync/atomic"
	"time"
)

// mutation disables one rule without a change of the program, by changing what the
// database executes. nil changes nothing.
type mutation struct {
	name    string
	rule    string // with its source
	changes []change
	forgets string // a statement that is followed by one that undoes it
	by      string // the statement that undoes it
	void    string // a statement that is answered but rolled back
	commits bool   // commits are answered but rolled back
	late    string // a statement that is delayed
	plan    plan

	matched []atomic.Int64 // how often each change matched; the last counts forgets and void
}

// change replaces text in the statements that contain mark.
type change struct{ mark, old, new string }

func (m *mutation) ready() *mutation {
	m.matched = make([]atomic.Int64, len(m.changes)+1)
	return m
}

// unmatched returns the changes that matched no statement.
func (m *mutation) unmatched() (all []string) {
	for i, c := range m.changes {
		if m.matched[i].Load() == 0 {
			all = append(all, c.old)
		}
	}
	if len(m.changes) == 0 && m.matched[0].Load() == 0 {
		all = append(all, m.forgets+m.void)
	}
	return all
}

func (m *mutation) change(text string) string {
	if m == nil {
		return text
	}
	was := text
	for i, c := range m.changes {
		if strings.Contains(was, c.mark) && strings.Contains(text, c.old) {
			text = strings.ReplaceAll(text, c.old, c.new)
			m.matched[i].Add(1)
		}
	}
	return text
}

// around runs a statement. inTx reports whether it is part of a transaction.
func (m *mutation) around(c pgConn, text string, inTx bool, do func() error) error {
	if m == nil {
		return do()
	}
	if m.late != "" && strings.Contains(text, m.late) {
		time.Sleep(20 * time.Millisecond)
	}
	switch {
	case m.forgets != "" && strings.Contains(text, m.forgets):
		m.matched[len(m.changes)].Add(1)
		if err := do(); err != nil {
			return err
		}
		return run(c, m.by)
	case m.void != "" && !inTx && strings.Contains(text, m.void):
		m.matched[len(m.changes)].Add(1)
		if err := run(c, "BEGIN"); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return run(c, "ROLLBACK")
	}
	return do()
}

func run(c pgConn, text string) error {
	_, err := c.ExecContext(context.Background(), text, []driver.NamedValue(nil))
	return err
}

func (m *mutation) losesCommits() bool {
	if m == nil || !m.commits {
		return false
	}
	m.matched[len(m.changes)].Add(1)
	return true
}
