package builds

import (
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// transientRetry is how long after a transient error an executable is queried again.
const transientRetry = time.Second

// versionCache queries the versions of executables: each once, and again when its file has
// changed.
type versionCache struct {
	opts FindOptions

	mu    sync.Mutex
	known map[string]*versionQuery // by path
}

// versionQuery is a query for the version of an executable. It ends within the timeout of
// the options, also without a waiting caller. Its result is valid as long as the file is unchanged.
type versionQuery struct {
	stamp   fileStamp
	started time.Time
	done    chan struct{} // closed when the result is set

	versionInfo
	err error
}

// fileStamp identifies a version of a file.
type fileStamp struct {
	inode             uint64
	size              int64
	modified, changed syscall.Timespec
}

func newVersionCache(opts FindOptions) *versionCache {
	return &versionCache{opts: opts, known: make(map[string]*versionQuery)}
}

// query returns the query of an executable, and starts it if there is no valid one.
func (c *versionCache) query(path string) (*versionQuery, error) {
	stamp, err := statFile(path)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[path]; known != nil && known.stamp == stamp && !known.isExpired() {
		return known, nil
	}
	q := &versionQuery{stamp: stamp, started: time.Now(), done: make(chan struct{})}
	c.known[path] = q
	go c.run(path, q)
	return q, nil
}

// queryAll returns the queries of executables by path, without those that are gone, and
// forgets all others.
func (c *versionCache) queryAll(paths []string) map[string]*versionQuery {
	queries := make(map[string]*versionQuery)
	for _, path := range paths {
		if q, err := c.query(path); err == nil {
			queries[path] = q
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(path string, q *versionQuery) bool { return q.hasEnded() && !slices.Contains(paths, path) })
	return queries
}

func (c *versionCache) run(path string, q *versionQuery) {
	defer close(q.done)
	q.versionInfo, q.err = queryVersion(c.opts, path)
	if q.err != nil {
		c.opts.Log.Warn("skipping executable", "path", path, "error", q.err)
	}
}

func (q *versionQuery) hasEnded() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// isExpired reports whether the query ended because of a shortage that may be over.
func (q *versionQuery) isExpired() bool {
	return q.hasEnded() && isTransient(q.err) && time.Since(q.started) >= transientRetry
}

func statFile(path string) (fileStamp, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return fileStamp{}, err
	}
	return fileStamp{inode: st.Ino, size: st.Size, modified: st.Mtim, changed: st.Ctim}, nil
}
