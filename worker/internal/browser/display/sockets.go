package display

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep removes all display sockets and keymaps of a user without processes. It returns
// the number of sockets.
func Sweep(uid int) int {
	removed := removeSocketsOf(uid)
	removeKeymaps(uid)
	return removed
}

// socketsOf returns the sockets of displays that belong to a user, by number.
func socketsOf(uid int) map[int]SocketID {
	found := make(map[int]SocketID)
	entries, _ := os.ReadDir(socketDir) // none without a directory
	for _, e := range entries {
		number, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "X"))
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Lstat(SocketPath(number), &st) == nil && int(st.Uid) == uid {
			found[number] = SocketID{Inode: st.Ino, Changed: st.Ctim.Nano()}
		}
	}
	return found
}

// RemoveSocket removes a display's socket and lock, and the keymap of a server that died while
// compiling it, unless another server uses the number.
func RemoveSocket(number int, socket SocketID) bool {
	if got, err := statSocket(SocketPath(number)); err != nil || got != socket {
		return false
	}
	os.Remove(fmt.Sprintf("/tmp/.X%d-lock", number))
	os.Remove(fmt.Sprintf("/tmp/server-%d.xkm", number))
	return os.Remove(SocketPath(number)) == nil
}

func statSocket(path string) (SocketID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return SocketID{}, fmt.Errorf("%s: %w", path, err)
	}
	return SocketID{Inode: st.Ino, Changed: st.Ctim.Nano()}, nil
}

// removeSocketsOf removes all display sockets of a user without processes,
// including those of displays that died before they were recorded.
func removeSocketsOf(uid int) int {
	removed := 0
	for number, socket := range socketsOf(uid) {
		if RemoveSocket(number, socket) {
			removed++
		}
	}
	return removed
}

// removeKeymaps removes the keymap of a server that died while compiling it. The
// file is named after the display number and would prevent servers of other
// users from using that number. The user must run no other server.
func removeKeymaps(owner int) {
	paths, _ := filepath.Glob("/tmp/server-*.xkm")
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && int(st.Uid) == owner {
			os.Remove(path)
		}
	}
}

// RemoveOrphanedSockets removes the sockets of a server that died before it
// reported its number: those that its user created since then and that no
// process uses. A killed process may hold one for a moment. It returns their
// number.
func RemoveOrphanedSockets(owner int, since time.Time) (removed int) {
	const timeout = time.Second
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		all, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			return removed
		}
		held := false
		for number, socket := range socketsOf(owner) {
			switch {
			case socket.Changed < since.UnixNano():
			case bytes.Contains(all, []byte(" "+SocketPath(number)+"\n")):
				held = true
			case RemoveSocket(number, socket):
				removed++
			}
		}
		if !held || time.Now().After(deadline) {
			return removed
		}
	}
}
