package browser

import (
	"context"
	"time"
)

// SetSerialClose has browsers close one after the other, each within a time.
func SetSerialClose(l *Launcher, within time.Duration) {
	l.closeSlots, l.closeTimeout = make(chan struct{}, 1), within
}

// ChangeTimezone is Browser.changeTimezone.
func ChangeTimezone(ctx context.Context, b *Browser, zone string) error {
	return b.changeTimezone(ctx, zone)
}

// WithConnectionLimit is widened.
func WithConnectionLimit(state []byte) []byte { return withConnectionLimit(state) }
