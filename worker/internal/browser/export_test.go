package browser

import (
	"time"
)

// SetSerialClose makes browsers close one at a time, each within a time limit.
func SetSerialClose(l *Launcher, within time.Duration) {
	l.closeSlots, l.closeTimeout = make(chan struct{}, 1), within
}

// SetTargetQueue sets how many events of targets a warm browser queues.
func SetTargetQueue(b *Browser, size int) { b.emul.queue = size }

// HoldSettings makes events of targets wait until release is called.
func HoldSettings(b *Browser) (release func()) {
	b.emul.mu.Lock()
	return b.emul.mu.Unlock
}

// ScriptsWithout is scriptsWithout.
func ScriptsWithout(charsets string) []string { return scriptsWithout(charsets) }

// WithProxySettings is withProxySettings.
func WithProxySettings(state []byte) []byte { return withProxySettings(state) }

// Freeze freezes the browser as if its idle time had passed, and reports whether it is
// frozen.
func (b *Browser) Freeze() bool {
	if b.canFreeze() && !b.freezer.busy() {
		b.freezer.expire()
	}
	return b.Frozen()
}
