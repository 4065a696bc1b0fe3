package browser

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// assumedSettled is the age at which a browser has settled, if the worker cannot see it.
const assumedSettled = 5 * time.Second

// Settled reports whether the browser notices changes of its time zone, so that Configure
// can apply one in milliseconds. A complete browser watches /etc/localtime, with the
// directory to which the link leads, only when its first page has been idle for a second:
// about three seconds after the start.
func (b *Browser) Settled() bool {
	if b.sandbox == nil || !b.l.hasPrivateFiles() {
		return true // the time zone cannot be changed
	}
	inode, err := b.sandbox.TimezoneDir()
	if err == nil {
		var watches bool
		if watches, err = watchesInode(b.proc.pid(), inode); err == nil {
			return watches
		}
	}
	return time.Since(b.StartedAt) >= assumedSettled
}

// watchesInode reports whether a process watches a file or directory with inotify.
func watchesInode(pid int, inode uint64) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	open, err := os.ReadDir(dir + "fd")
	if err != nil {
		return false, err
	}
	for _, e := range open {
		if to, _ := os.Readlink(dir + "fd/" + e.Name()); to != "anon_inode:inotify" {
			continue
		}
		info, err := os.ReadFile(dir + "fdinfo/" + e.Name())
		if err != nil {
			return false, err
		}
		if inotifyWatches(info, inode) {
			return true, nil
		}
	}
	return false, nil
}

// inotifyWatches reports whether a file of /proc/<pid>/fdinfo contains the watch of an
// inode: inotify wd:1 ino:9e7e sdev:800013 mask:800afce.
func inotifyWatches(info []byte, inode uint64) bool {
	want := "ino:" + strconv.FormatUint(inode, 16)
	for line := range strings.Lines(string(info)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "inotify" && fields[2] == want {
			return true
		}
	}
	return false
}
