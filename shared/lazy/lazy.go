// Package lazy makes what a program needs later, if ever, when it is needed.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled when it is first asked for,
// since each process of a program would pay for it in time and memory when it
// starts. A bound on a repetition is what costs most.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
