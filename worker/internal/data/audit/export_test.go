package audit

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"
)

// NewLogOf returns a log that is written to a file, and a channel with the result of Close.
func NewLogOf(t *testing.T, file output, key Key) (*Log, <-chan error) {
	t.Helper()
	c := &chain{file: file, key: key, written: map[Kind]int64{}}
	if err := c.write(time.Now(), Start{Key: key.id}, hashField, hash); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	return newLog(c, slog.New(slog.NewTextHandler(t.Output(), nil)), func(_ *chain, err error) { closed <- err }), closed
}

// Rewrite returns the lines of a log as one of a key, with all hashes, by someone who has only the id of the key.
func Rewrite(t *testing.T, lines []string, key Key) (rewritten []string) {
	t.Helper()
	previous := ""
	for _, line := range lines {
		var e struct {
			entry
			Data map[string]any `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		field, authenticate := hashField, hash
		switch e.Kind {
		case kindStart:
			e.Data["key"] = key.id
		case kindSeal:
			field, authenticate = sealField, Key{}.mac
		}
		e.entry.Data, e.Previous = e.Data, previous
		raw, sum, err := e.line(field, authenticate)
		if err != nil {
			t.Fatal(err)
		}
		previous = sum
		rewritten = append(rewritten, string(raw))
	}
	return rewritten
}
