package browser

import (
	"context"
	"time"
)

// SetSerialClose makes browsers close one at a time, each within a time limit.
func SetSerialClose(l *Launcher, within time.Duration) {
	l.closeSlots, l.closeTimeout = make(chan struct{}, 1), within
}

// ChangeTimezone is Browser.changeTimezone.
func ChangeTimezone(ctx context.Context, b *Browser, zone string) error {
	return b.changeTimezone(ctx, zone)
}

// WithConnectionLimit is withConnectionLimit.
func WithConnectionLimit(state []byte) []byte { return withConnectionLimit(state) }
