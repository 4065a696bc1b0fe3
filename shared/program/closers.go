package program

import (
	"errors"
	"slices"
)

// Closers closes the parts of a program, the last opened one first. Its zero value is empty.
type Closers struct{ closers []func() error }

// Add registers the function that closes a part, when the part has been opened.
func (c *Closers) Add(closer func() error) { c.closers = append(c.closers, closer) }

// AddFunc is Add for a function without an error.
func (c *Closers) AddFunc(closer func()) { c.Add(func() error { closer(); return nil }) }

// Close closes all parts and returns their errors. A second call does nothing.
func (c *Closers) Close() error {
	closers := c.closers
	c.closers = nil
	var errs []error
	for _, closer := range slices.Backward(closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}
