package audit

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxLine   = 64 << 10
	sumLength = 64 // hexadecimal digits
)

// Errors of Verify besides LineError.
var (
	ErrEmpty     = errors.New("the file is empty")
	ErrNotSealed = errors.New("the log is not sealed: its session still runs, its worker was killed or could not write, or lines were removed from the end")
	ErrOtherKey  = errors.New("the log is of another organization key")
)

// LineError is what is wrong with a line.
type LineError struct {
	Line    int64
	Problem string
}

// Error implements error.
func (e *LineError) Error() string { return fmt.Sprintf("line %d %s", e.Line, e.Problem) }

// Report is what was verified: the lines up to the first wrong one.
type Report struct {
	Start       Start
	Entries     int64
	Kinds       map[Kind]int64
	First, Last time.Time
	Sealed      bool
	State       State // if it is sealed
	Lost        int64 // entries that the worker has not written; at least

	key Key
}

// Verify reads a log and checks each line, and the seal. Errors: a *LineError, ErrEmpty,
// ErrNotSealed, ErrOtherKey, and those of the file.
func Verify(file io.Reader, key Key) (r Report, err error) {
	r = Report{Kinds: map[Kind]int64{}, key: key}
	lines := bufio.NewReaderSize(file, maxLine)
	previous := ""
	for {
		line, err := lines.ReadSlice('\n')
		number := r.Entries + 1
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return r, r.end()
		case errors.Is(err, io.EOF):
			return r, &LineError{number, "is incomplete: the file was cut off, or its worker was killed while it wrote"}
		case errors.Is(err, bufio.ErrBufferFull):
			return r, &LineError{number, "is too long for an entry"}
		case err != nil:
			return r, err
		case r.Sealed:
			return r, &LineError{number, "follows the seal"}
		}
		if previous, err = r.check(number, line, previous); err != nil {
			return r, err
		}
	}
}

// end returns what is missing after the last line.
func (r *Report) end() error {
	switch {
	case r.Entries == 0:
		return ErrEmpty
	case !r.Sealed:
		return ErrNotSealed
	}
	return nil
}

// check checks a line and returns its hash.
func (r *Report) check(number int64, line []byte, previous string) (sum string, err error) {
	text, field, sum, ok := cutSum(line)
	var e struct {
		entry
		Data json.RawMessage `json:"data"`
	}
	if !ok || json.Unmarshal(line, &e) != nil {
		return "", &LineError{number, "is not an entry"}
	}
	if field == hashField && hash(text) != sum {
		return "", &LineError{number, "was changed: its hash does not match"}
	}
	if e.Seq != number {
		return "", &LineError{number, fmt.Sprintf("has the number %d: lines were removed, added or moved", e.Seq)}
	}
	if e.Previous != previous {
		return "", &LineError{number, "does not continue the line before"}
	}
	if (number == 1) != (e.Kind == kindStart) || (field == sealField) != (e.Kind == kindSeal) {
		return "", &LineError{number, "is in the wrong place"}
	}
	if err := r.read(e.Kind, e.Data); err != nil {
		if errors.Is(err, ErrOtherKey) {
			return "", err
		}
		return "", &LineError{number, "is not an entry"}
	}
	if field == sealField && !hmac.Equal([]byte(r.key.mac(text)), []byte(sum)) {
		return "", &LineError{number, "has a seal that does not match: the log was written again, or the key is wrong"}
	}
	if number == 1 {
		r.First = e.At
	}
	r.Entries, r.Last, r.Sealed = number, e.At, field == sealField
	r.Kinds[e.Kind]++
	return sum, nil
}

// read reads what the report contains of an entry. Error: ErrOtherKey.
func (r *Report) read(kind Kind, data json.RawMessage) error {
	switch kind {
	case kindStart:
		if err := json.Unmarshal(data, &r.Start); err != nil {
			return err
		}
		if r.Start.Key != r.key.id {
			return ErrOtherKey
		}
	case kindLost:
		var lost Lost
		if err := json.Unmarshal(data, &lost); err != nil {
			return err
		}
		r.Lost += lost.Entries
	case kindSeal:
		var seal Seal
		if err := json.Unmarshal(data, &seal); err != nil {
			return err
		}
		r.State = seal.State
	}
	return nil
}

// cutSum returns the text of a line that its last field authenticates.
func cutSum(line []byte) (text []byte, field, sum string, ok bool) {
	for _, field := range []string{hashField, sealField} {
		before := `,"` + field + `":"`
		length := len(before) + sumLength + len("\"}\n")
		if len(line) < length {
			continue
		}
		text, last := line[:len(line)-length], line[len(line)-length:]
		if bytes.HasPrefix(last, []byte(before)) && bytes.HasSuffix(last, []byte("\"}\n")) {
			return text, field, string(last[len(before) : len(before)+sumLength]), true
		}
	}
	return nil, "", "", false
}

// escape returns a text of a log, which may be forged, without control characters.
func escape(text string) string { return strings.Trim(strconv.QuoteToASCII(text), `"`) }

// Write writes the report for people.
func (r Report) Write(out io.Writer) error {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", r.Kinds[kind], escape(string(kind))))
	}
	sealed := "no"
	if r.Sealed {
		sealed = string(r.State)
	}
	_, err := fmt.Fprintf(out, "session  %s\nlaunch   %s\nprofile  %s\nmachine  %s\nentries  %d (%s)\nfirst    %s\nlast     %s\nlost     %d\nsealed   %s\n",
		r.Start.SessionID, r.Start.LaunchID, r.Start.ProfileID, escape(r.Start.MachineID), r.Entries, strings.Join(kinds, ", "),
		r.First.Format(time.RFC3339Nano), r.Last.Format(time.RFC3339Nano), r.Lost, sealed)
	return err
}
