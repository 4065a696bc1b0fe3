package audit_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/data/audit"
)

func TestVerify_AcceptsCompleteLog(t *testing.T) {
	lines := newLog(t)
	report, err := verify(t, lines)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Sealed || report.State != audit.Complete || report.Entries != 7 || int(report.Entries) != len(lines) || report.Lost != 0 || report.Last.Before(report.First) {
		t.Errorf("got %+v", report)
	}
	if strings.Contains(strings.Join(lines, ""), organizationKey) {
		t.Error("the log contains the key")
	}
	var out bytes.Buffer
	if err := report.Write(&out); err != nil || !strings.Contains(out.String(), "sealed   complete\n") || !strings.Contains(out.String(), report.Start.SessionID.String()) {
		t.Errorf("got %v %s", err, out.String())
	}
}

// TestVerify_RefusesEveryChangedByte changes each byte of a log.
func TestVerify_RefusesEveryChangedByte(t *testing.T) {
	text := strings.Join(newLog(t), "")
	for i := range text {
		changed := []byte(text)
		changed[i] ^= 1
		if _, err := verify(t, []string{string(changed)}); err == nil {
			t.Fatalf("byte %d of %d can be changed: %q", i, len(text), text[max(0, i-20):min(i+20, len(text))])
		}
	}
}

// TestVerify_RefusesEveryTruncation removes bytes from the end, down to an empty file.
func TestVerify_RefusesEveryTruncation(t *testing.T) {
	text := strings.Join(newLog(t), "")
	for size := range len(text) {
		if _, err := verify(t, []string{text[:size]}); err == nil {
			t.Fatalf("%d of %d bytes are accepted", size, len(text))
		}
	}
}

func TestVerify_NamesWrongLine(t *testing.T) {
	original, other := newLog(t), newLog(t)
	edit := func(change func(lines []string) []string) []string { return change(slices.Clone(original)) }
	for name, tc := range map[string]struct {
		lines []string
		line  int64
		says  string
	}{
		"a removed line":      {edit(func(l []string) []string { return slices.Delete(l, 2, 3) }), 3, "has the number 4"},
		"a repeated line":     {edit(func(l []string) []string { return slices.Insert(l, 2, l[1]) }), 3, "has the number 2"},
		"swapped lines":       {edit(func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }), 2, "has the number 3"},
		"a changed name":      {edit(func(l []string) []string { l[2] = strings.Replace(l[2], "Sign", "Log", 1); return l }), 3, "its hash does not match"},
		"a line of another":   {edit(func(l []string) []string { l[3] = other[3]; return l }), 4, "does not continue"},
		"a missing start":     {original[1:], 1, "has the number 2"},
		"a line after":        {append(slices.Clone(original), original[5]), 8, "follows the seal"},
		"an empty line":       {edit(func(l []string) []string { return slices.Insert(l, 1, "\n") }), 2, "is not an entry"},
		"a text":              {edit(func(l []string) []string { l[1] = "hello\n"; return l }), 2, "is not an entry"},
		"a long line":         {edit(func(l []string) []string { l[1] = strings.Repeat("x", 1<<17) + "\n"; return l }), 2, "is too long"},
		"half of a line":      {append(slices.Clone(original[:4]), original[4][:30]), 5, "is incomplete"},
		"the seal of another": {edit(func(l []string) []string { l[6] = other[6]; return l }), 7, "does not continue"},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := verify(t, tc.lines)
			wrong, ok := errors.AsType[*audit.LineError](err)
			if !ok || wrong.Line != tc.line || !strings.Contains(wrong.Problem, tc.says) {
				t.Errorf("got %v", err)
			}
			if report.Entries != tc.line-1 {
				t.Errorf("%d entries are verified", report.Entries)
			}
		})
	}
}

// TestVerify_RefusesLogWithoutSeal removes whole lines from the end, as a killed worker does.
func TestVerify_RefusesLogWithoutSeal(t *testing.T) {
	lines := newLog(t)
	for count := 1; count < len(lines); count++ {
		if report, err := verify(t, lines[:count]); !errors.Is(err, audit.ErrNotSealed) || int(report.Entries) != count {
			t.Errorf("%d lines: got %v, %d verified", count, err, report.Entries)
		}
	}
	if _, err := verify(t, nil); !errors.Is(err, audit.ErrEmpty) {
		t.Errorf("an empty file: got %v", err)
	}
}

// TestVerify_RefusesRewrittenLog writes a log again with all hashes, but without the key.
func TestVerify_RefusesRewrittenLog(t *testing.T) {
	s, _ := newStore(t)
	start := audit.Start{SessionID: uuid.New()}
	log, err := s.Create(newKey(t, "svc_another"), time.Now(), start)
	if err != nil {
		t.Fatal(err)
	}
	lines := end(t, log, filepath.Join(s.Dir, start.SessionID.String()+".jsonl"))
	if _, err := verify(t, lines); !errors.Is(err, audit.ErrOtherKey) {
		t.Errorf("with another key: got %v", err)
	}
	// The same with the id of the key, which is no secret.
	rewritten := audit.Rewrite(t, lines, newKey(t, organizationKey))
	_, err = verify(t, rewritten)
	if wrong, ok := errors.AsType[*audit.LineError](err); !ok || wrong.Line != 3 || !strings.Contains(wrong.Problem, "seal that does not match") {
		t.Errorf("got %v", err)
	}
}

// TestVerify_RefusesMisplacedKinds rewrites a log so that it starts twice.
func TestVerify_RefusesMisplacedKinds(t *testing.T) {
	lines := newLog(t)
	lines[1] = strings.Replace(lines[1], `"kind":"navigation"`, `"kind":"start"`, 1)
	if _, err := verify(t, audit.Rewrite(t, lines, newKey(t, organizationKey))); err == nil || !strings.Contains(err.Error(), "line 2 is in the wrong place") {
		t.Errorf("got %v", err)
	}
}

func TestReport_EscapesControlCharacters(t *testing.T) {
	report := audit.Report{Start: audit.Start{MachineID: "a\x1b[31m"}, Kinds: map[audit.Kind]int64{"b\x1b": 1}}
	var out strings.Builder
	if err := report.Write(&out); err != nil || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), `a\x1b[31m`) {
		t.Errorf("wrote %q, %v", out.String(), err)
	}
}
