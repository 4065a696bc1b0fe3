package browser

import (
	"context"
	"time"
)

// SetSerialClose makes browsers close one at a time, each within a time limit.
func SetSerialClose(l *Launcher, within time.Duration) {
	l.closeSlots, l.closeTimeout = make(chan struct{}, 1), within
}

// SetNewBuildWait sets how long Find waits for new executables.
func SetNewBuildWait(f *Finder, limit time.Duration) { f.newBuildWait = limit }

// SetTargetQueue sets how many events of targets a warm browser queues.
func SetTargetQueue(b *Browser, size int) { b.emul.queue = size }

// HoldSettings makes events of targets wait until release is called.
func HoldSettings(b *Browser) (release func()) {
	b.emul.mu.Lock()
	return b.emul.mu.Unlock
}

// ChangeTimezone is Browser.changeTimezone.
func ChangeTimezone(ctx context.Context, b *Browser, zone string) error {
	return b.changeTimezone(ctx, zone)
}

// TimezonePreloaded returns a channel that is closed when a warm browser has read its time
// zone in advance.
func TimezonePreloaded(b *Browser) <-chan struct{} { return b.preload.ended }

// DetourAfter is detourAfter.
const DetourAfter = detourAfter

// WatchesInode is watchesInode.
func WatchesInode(pid int, inode uint64) (bool, error) { return watchesInode(pid, inode) }

// ScriptsWithout is scriptsWithout.
func ScriptsWithout(charsets string) []string { return scriptsWithout(charsets) }

// AwaitTimezone awaits a change from one zone to another by a page that read and
// set stand for.
func AwaitTimezone(ctx context.Context, before, zone string, detourAfter time.Duration,
	read func(context.Context) (string, error), set func(string) error,
) error {
	return timezoneChange{read: read, set: set, before: before, zone: zone, detourAfter: detourAfter}.await(ctx)
}

// WithConnectionLimit is withConnectionLimit.
func WithConnectionLimit(state []byte) []byte { return withConnectionLimit(state) }

// Freeze freezes the browser as if its idle time had passed, and reports whether it is
// frozen.
func (b *Browser) Freeze() bool {
	if b.canFreeze() && !b.freezer.busy() {
		b.freezer.expire()
	}
	return b.Frozen()
}
