package sandbox

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pressureInterval = 200 * time.Millisecond // between calls of Options.Pressure, which are cheap
	limitInterval    = 500 * time.Millisecond // between scans of all processes
	releaseTime      = time.Second            // in which the memory of an ended launch becomes free
)

// memoryWatch ends launches that exceed their memory, where the kernel does not limit
// it, and the largest when the memory of all is nearly full. Its methods can be called
// with nil.
type memoryWatch struct {
	limit    int64       // of each launch, in bytes; 0 is unlimited
	pressure func() bool // Options.Pressure; may be nil
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu       sync.Mutex
	launches map[*Sandbox]func() // onOOM of Exec
}

// startMemoryWatch watches launches until close.
func startMemoryWatch(opts Options) *memoryWatch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &memoryWatch{limit: opts.Memory, pressure: opts.Pressure, cancel: cancel, launches: map[*Sandbox]func(){}}
	w.work.Go(func() { w.run(ctx) })
	return w
}

func (w *memoryWatch) close() {
	if w != nil {
		w.cancel()
		w.work.Wait()
	}
}

// add watches a launch until remove.
func (w *memoryWatch) add(s *Sandbox, onOOM func()) {
	if w != nil && onOOM != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.launches[s] = onOOM
	}
}

func (w *memoryWatch) remove(s *Sandbox) {
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.launches, s)
	}
}

func (w *memoryWatch) run(ctx context.Context) {
	pressure, limit := time.NewTicker(pressureInterval), time.NewTicker(limitInterval)
	defer pressure.Stop()
	defer limit.Stop()
	var lastEnd time.Time // of a launch under pressure
	for {
		select {
		case <-ctx.Done():
			return
		case <-limit.C:
			w.endOverLimit()
		case now := <-pressure.C:
			if now.Sub(lastEnd) >= releaseTime && w.isUnderPressure() && w.endLargest() {
				lastEnd = now
			}
		}
	}
}

func (w *memoryWatch) isUnderPressure() bool {
	w.mu.Lock()
	count := len(w.launches)
	w.mu.Unlock()
	return count > 0 && w.pressure != nil && w.pressure()
}

func (w *memoryWatch) endOverLimit() {
	if w.limit == 0 {
		return
	}
	for s, used := range w.measure() {
		if used > w.limit {
			w.end(s)
		}
	}
}

// endLargest ends the launch with the most memory, and reports whether there was one.
func (w *memoryWatch) endLargest() bool {
	var largest *Sandbox
	all := w.measure()
	for s, used := range all {
		if used > all[largest] {
			largest = s
		}
	}
	if largest != nil {
		w.end(largest)
	}
	return largest != nil
}

// measure returns the memory of each launch, in bytes.
func (w *memoryWatch) measure() map[*Sandbox]int64 {
	w.mu.Lock()
	launches := maps.Clone(w.launches)
	w.mu.Unlock()
	all := map[*Sandbox]int64{}
	if len(launches) == 0 {
		return all
	}
	table := readProcesses()
	for s := range launches {
		tree := table.tree(s.first)
		for _, p := range tree {
			all[s] += p.memory()
		}
		if len(tree) > 0 {
			all[s] += s.fileMemory()
		}
	}
	return all
}

// end calls the launch's onOOM once, unless the launch has been closed.
func (w *memoryWatch) end(s *Sandbox) {
	w.mu.Lock()
	onOOM := w.launches[s]
	delete(w.launches, s)
	w.mu.Unlock()
	if onOOM != nil {
		s.overLimit.Store(true)
		onOOM()
	}
}

// fileMemory returns the memory of the launch's private files and of its /dev/shm, in bytes.
func (s *Sandbox) fileMemory() (sum int64) {
	if s.root == nil {
		return 0
	}
	root, err := s.root.SyscallConn() // Close may close it meanwhile
	if err != nil {
		return 0
	}
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	_ = root.Control(func(dir uintptr) {
		for _, path := range []string{"svc", "dev/shm"} {
			fd, err := unix.Openat2(int(dir), path, how)
			if err != nil {
				continue
			}
			var fs unix.Statfs_t
			if err := unix.Fstatfs(fd, &fs); err == nil && fs.Type == unix.TMPFS_MAGIC {
				sum += int64(fs.Blocks-fs.Bfree) * fs.Bsize
			}
			_ = unix.Close(fd)
		}
	})
	return sum
}
