package browser

import "context"

// MoveTimezone is Browser.moveTimezone.
func MoveTimezone(ctx context.Context, b *Browser, zone string) error {
	return b.moveTimezone(ctx, zone)
}

// Widened is widened.
func Widened(state []byte) []byte { return widened(state) }
