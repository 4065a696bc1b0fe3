package pg

import (
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
)

// The first table that a statement writes or reads. The UPDATE of ON CONFLICT and FOR
// UPDATE names no table.
var (
	writtenTable = lazy.Regexp(`(?i)\bINSERT\s+INTO\s+([\w.]+)|\bDELETE\s+FROM\s+([\w.]+)|\bUPDATE\s+([\w.]+)(?:\s+\w+)?\s+SET\b`)
	readTable    = lazy.Regexp(`(?i)\bFROM\s+([a-z_][\w.]*)`)
)

// statementName returns a name for the spans of a statement: what it writes first, such
// as "INSERT notes", or else what it reads first, such as "SELECT notes", or else its
// first word.
func statementName(statement string) string {
	if found := writtenTable().FindStringSubmatch(statement); found != nil {
		return strings.ToUpper(found[0][:len("INSERT")]) + " " + found[1] + found[2] + found[3]
	}
	if found := readTable().FindStringSubmatch(statement); found != nil {
		return "SELECT " + found[1]
	}
	for word := range strings.FieldsSeq(statement) {
		return strings.ToUpper(word)
	}
	return ""
}
