package browser

import (
	"context"
	"time"
)

// CloseOneByOne has browsers close one after the other, each within a time.
func CloseOneByOne(l *Launcher, within time.Duration) {
	l.closeSlots, l.closeTimeout = make(chan struct{}, 1), within
}

// MoveTimezone is Browser.changeTimezone.
func MoveTimezone(ctx context.Context, b *Browser, zone string) error {
	return b.changeTimezone(ctx, zone)
}

// Widened is widened.
func Widened(state []byte) []byte { return withConnectionLimit(state) }
