package benchresult

import (
	"context"
	"math"
	"slices"
)

// Side is one side of a comparison. Each call is one measurement.
type Side[T any] func(ctx context.Context) (T, error)

// Interleave measures the sides alternately, in alternating order, so that other
// load on the machine affects all sides. A warm-up round comes first and is not
// counted. It returns the measurements of each side in the order of the rounds.
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

// Median returns the median of a figure; items must not be empty.
func Median[T any](items []T, figure func(T) float64) float64 { return Quantile(items, 0.5, figure) }

// Quantile returns the smallest figure that is not exceeded by a share, from 0 to
// 1, of the measurements; items must not be empty.
func Quantile[T any](items []T, share float64, figure func(T) float64) float64 {
	figures := make([]float64, len(items))
	for i, measured := range items {
		figures[i] = figure(measured)
	}
	slices.Sort(figures)
	return figures[max(int(math.Ceil(share*float64(len(figures)))), 1)-1]
}
