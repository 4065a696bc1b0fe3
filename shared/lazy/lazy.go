// Package lazy defers initialization to the first use.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles the expression at the first call.
// Expressions with bounded repetitions are expensive to compile, and most
// processes never use them.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
