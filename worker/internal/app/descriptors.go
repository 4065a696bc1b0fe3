package app

import (
	"log/slog"
	"math"
	"syscall"

	"github.com/browser-svc/svc/worker/internal/proxy"
)

// descriptorsPerSession is how many descriptors a session may take: its way out, the
// sockets into its room, its files and pipes, and its clients.
const descriptorsPerSession = proxy.MaxDescriptors + 200

// maxOpenFiles is how many descriptors this process may have: the hard limit, to
// which the runtime has raised the soft one.
func maxOpenFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return limit.Cur
}

// checkDescriptors says when the sessions that are allowed could use up all
// descriptors: then none gets any, and the cloud hears nothing.
func (c Config) checkDescriptors(limit uint64, logger *slog.Logger) {
	if wanted := uint64(c.MaxSessions) * descriptorsPerSession; limit < wanted {
		logger.Warn("MAX_SESSIONS browsers with all the connections that they may open need more open files than this process may have: "+
			"raise the limit (ulimit -Hn, LimitNOFILE, --ulimit nofile)", "limit", limit, "wanted", wanted)
	}
}
