package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// UIDPool allocates user ids, one per launch. A lock file per id keeps workers
// on the same machine from using the same id; the kernel releases it when the
// holder ends.
type UIDPool struct {
	base, count int
	lockDir     string

	mu   sync.Mutex
	next int // round robin: delays the reuse of an id
	held map[int]*os.File
}

// NewUIDPool returns a pool of count ids from base, with its locks in a directory, which is created
// if needed.
func NewUIDPool(base, count int, lockDir string) (*UIDPool, error) {
	if err := os.MkdirAll(lockDir, 0o700); err != nil {
		return nil, fmt.Errorf("user id locks: %w", err)
	}
	return &UIDPool{base: base, count: count, lockDir: lockDir, held: make(map[int]*os.File)}, nil
}

// Acquire returns an id that is not locked and has no process.
func (p *UIDPool) Acquire() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.count {
		uid := p.base + p.next
		p.next = (p.next + 1) % p.count
		if !p.lock(uid) {
			continue
		}
		if HasNone(uid) {
			return uid, nil
		}
		p.unlock(uid)
	}
	return 0, errors.New("no free user id")
}

// AcquireID locks this id, even if it has processes; false if it is locked.
func (p *UIDPool) AcquireID(uid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contains(uid) && p.lock(uid)
}

func (p *UIDPool) lock(uid int) bool {
	if p.held[uid] != nil {
		return false
	}
	f, err := LockFile(filepath.Join(p.lockDir, strconv.Itoa(uid)))
	if err != nil {
		return false
	}
	p.held[uid] = f
	return true
}

// Release unlocks an id.
func (p *UIDPool) Release(uid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlock(uid)
}

// unlock is release for a caller that holds the lock of the pool.
func (p *UIDPool) unlock(uid int) {
	if f := p.held[uid]; f != nil {
		f.Close()
		delete(p.held, uid)
	}
}

// contains reports whether the pool has an id.
func (p *UIDPool) contains(uid int) bool { return uid >= p.base && uid < p.base+p.count }

// LockFile locks a file, creating it if needed, until it is closed or the
// process ends. It fails at once if the file is locked.
func LockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
