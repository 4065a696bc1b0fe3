package benchresult

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Part is one subject of a benchmark and produces rows of the table.
type Part struct {
	Name, What string
	Measure    func(ctx context.Context) ([]Row, error)
}

// Parts are the parts of a benchmark, in the order of measurement.
type Parts []Part

// Names returns the names of the parts.
func (p Parts) Names() (all []string) {
	for _, part := range p {
		all = append(all, part.Name)
	}
	return all
}

// Check returns an error for unknown names.
func (p Parts) Check(only []string) error {
	for _, name := range only {
		if !slices.Contains(p.Names(), name) {
			return fmt.Errorf("unknown part %q: the parts are %s", name, strings.Join(p.Names(), ", "))
		}
	}
	return nil
}

// Measure measures the parts with these names (all if the list is empty) and prints
// progress messages.
func (p Parts) Measure(ctx context.Context, only []string) (Table, error) {
	var all Table
	for _, part := range p {
		if len(only) > 0 && !slices.Contains(only, part.Name) {
			continue
		}
		Progress("Measuring: %s", part.What)
		began := time.Now()
		rows, err := part.Measure(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // more specific than the error that it caused
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.Name, err)
		}
		for _, r := range rows {
			Detail("%s", r)
		}
		Detail("(%.0f s)", time.Since(began).Seconds())
		all = append(all, rows...)
	}
	return all, nil
}

// Progress prints a progress message.
func Progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "• "+format+"\n", args...) }

// Detail prints an indented progress message.
func Detail(format string, args ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", args...) }
