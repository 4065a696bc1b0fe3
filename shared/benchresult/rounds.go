package benchresult

import (
	"context"
	"math"
	"slices"
)

// Side is one of those that are compared: it measures itself once.
type Side[T any] func(ctx context.Context) (T, error)

// Interleave measures the sides turn about, back and forth, so that what else
// the machine does meets all. A turn before the first round warms each up, and
// is not kept. It returns what each side measured, in the order of the rounds.
func Interleave[T any](ctx context.Context, rounds int, sides ...Side[T]) ([][]T, error) {
	all := make([][]T, len(sides))
	for round := range 1 + rounds {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			measured, err := sides[i](ctx)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				all[i] = append(all[i], measured)
			}
		}
	}
	return all, nil
}

// Median is that of a figure of what was measured; there must be something.
func Median[T any](of []T, figure func(T) float64) float64 { return Quantile(of, 0.5, figure) }

// Quantile is the smallest figure that a share of them, from 0 to 1, does not
// exceed; there must be something.
func Quantile[T any](of []T, share float64, figure func(T) float64) float64 {
	figures := make([]float64, len(of))
	for i, measured := range of {
		figures[i] = figure(measured)
	}
	slices.Sort(figures)
	return figures[max(int(math.Ceil(share*float64(len(figures)))), 1)-1]
}
