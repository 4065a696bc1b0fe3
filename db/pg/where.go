package pg

import (
	"strconv"
	"strings"
)

// Where builds a WHERE clause from optional filters.
type Where struct {
	text string
	args []any
}

// NewWhere starts with a condition that uses the arguments as $1 and so on.
func NewWhere(condition string, args ...any) *Where {
	return &Where{text: " WHERE " + condition, args: args}
}

// And adds a condition in which ? is the argument. It adds nothing if arg is nil.
func And[T any](w *Where, condition string, arg *T) {
	if arg == nil {
		return
	}
	w.args = append(w.args, *arg)
	w.text += " AND " + strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(w.args)))
}

// SQL returns the clause and its arguments.
func (w *Where) SQL() (clause string, args []any) { return w.text, w.args }
