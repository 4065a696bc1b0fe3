package browser

import (
	"bufio"
	"context"
	"crypto/des" //nolint:gosec // the format of VNC's password files
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/browser-svc/svc/shared/settings"
)

const socketDir = "/tmp/.X11-unix"

// Display is the VNC server of a headful browser's display (RFB 3.8, VNC
// authentication). Only the worker and the browser's user can connect to its
// socket.
type Display struct {
	Socket       string // path
	Password     string // allows input
	ViewPassword string // allows viewing only
}

// Display returns how to reach the browser's display; false when headless.
func (b *Browser) Display() (Display, bool) {
	if b.display == nil {
		return Display{}, false
	}
	return b.display.vnc, true
}

// display is the X server of one launch. Clients need its socket and its cookie.
type display struct {
	number    int
	socket    socketID
	vnc       Display
	proc      *process
	owner     int       // user id of the server
	startedAt time.Time // before the server
	once      sync.Once
}

// socketID distinguishes a display's socket from a later one with the same name;
// inode numbers alone are reused too soon. The zero value means none.
type socketID struct {
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed"` // nanoseconds
}

func socketPath(number int) string { return fmt.Sprintf("%s/X%d", socketDir, number) }

// startDisplay starts an X server as uid and waits until it is ready. The server
// chooses a free display number and reports it, so two servers never collide.
func startDisplay(ctx context.Context, s *starter, program string, d dirs, uid int, size settings.Size) (*display, error) {
	if err := writeCookie(d.xauth, uid); err != nil {
		return nil, fmt.Errorf("display: %w", err)
	}
	vnc, err := writePasswords(d, uid)
	if err != nil {
		return nil, fmt.Errorf("display: %w", err)
	}
	if err := ensureSocketDir(); err != nil {
		return nil, fmt.Errorf("display: %w", err)
	}
	number, reports, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("display: %w", err)
	}
	defer number.Close()
	log := &tail{}
	stderr, stop, err := log.pipe()
	if err != nil {
		reports.Close()
		return nil, fmt.Errorf("display: %w", err)
	}
	args := append([]string{"-displayfd", "3",
		"-geometry", fmt.Sprintf("%dx%d", size.Width, size.Height), "-depth", "24",
		"-nolisten", "tcp", "-auth", d.xauth, "-s", "0", "-noreset"}, vncArgs(d)...)
	cmd := exec.Command(program, args...) //nolint:noctx // ended by stop
	cmd.Env, cmd.Dir = baseEnv(d.hostPaths()), d.home
	cmd.ExtraFiles, cmd.Stderr = []*os.File{reports}, stderr
	disp := &display{vnc: vnc, owner: uid, startedAt: time.Now()}
	if uid < 0 {
		disp.owner = os.Getuid()
	}
	proc, err := s.start(cmd, uid)
	reports.Close()
	stderr.Close()
	if err != nil {
		stop()
		return nil, fmt.Errorf("display: %w", err)
	}
	go func() {
		<-proc.died
		stop()
	}()
	disp.proc = proc
	if err := disp.await(ctx, number); err != nil {
		disp.stop()
		stop() // the log is complete
		return nil, fmt.Errorf("display: %w: %s", err, log.lastLines(5))
	}
	return disp, nil
}

func (d *display) await(ctx context.Context, number *os.File) error {
	defer context.AfterFunc(ctx, func() { _ = number.SetReadDeadline(time.Now()) })()
	line, err := bufio.NewReader(number).ReadString('\n')
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the X server reported no display number: %w", err)
	}
	if d.number, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		return fmt.Errorf("the X server reported no display number: %w", err)
	}
	d.socket, err = statSocket(socketPath(d.number))
	return err
}

// stop kills the server and removes its files in /tmp. The socket is removed
// first: while the server lives, no other server takes its number.
func (d *display) stop() {
	d.once.Do(func() {
		removeSocket(d.number, d.socket)
		d.proc.kill()
		<-d.proc.died
		if d.socket == (socketID{}) {
			removeOrphanedSockets(d.owner, d.startedAt)
		}
		if d.owner != os.Getuid() {
			removeKeymaps(d.owner)
		}
	})
}

// socketsOf returns the sockets of displays that belong to a user, by number.
func socketsOf(uid int) map[int]socketID {
	found := make(map[int]socketID)
	entries, _ := os.ReadDir(socketDir) // none without a directory
	for _, e := range entries {
		number, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "X"))
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Lstat(socketPath(number), &st) == nil && int(st.Uid) == uid {
			found[number] = socketID{Inode: st.Ino, Changed: st.Ctim.Nano()}
		}
	}
	return found
}

// removeSocket removes a display's socket and lock, and the keymap of a server that died while
// compiling it, unless another server uses the number.
func removeSocket(number int, socket socketID) bool {
	if got, err := statSocket(socketPath(number)); err != nil || got != socket {
		return false
	}
	os.Remove(fmt.Sprintf("/tmp/.X%d-lock", number))
	os.Remove(fmt.Sprintf("/tmp/server-%d.xkm", number))
	return os.Remove(socketPath(number)) == nil
}

func statSocket(path string) (socketID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return socketID{}, fmt.Errorf("%s: %w", path, err)
	}
	return socketID{Inode: st.Ino, Changed: st.Ctim.Nano()}, nil
}

func ensureSocketDir() error {
	err := os.Mkdir(socketDir, 0o777)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(socketDir, 0o777|os.ModeSticky)
}

// vncArgs returns the arguments that make the X server a VNC server on a socket
// of the launch.
func vncArgs(d dirs) []string {
	return []string{
		"-rfbport", "-1", "-rfbunixpath", d.vncSocket, "-rfbunixmode", "0600",
		"-SecurityTypes", "VncAuth", "-PasswordFile", d.vncAuth,
		"-UseBlacklist=0", // all who can connect share one address: failures of one would lock out the worker
		"-AlwaysShared", "-AcceptSetDesktopSize=0", "-desktop", "browser",
		"-AllowOverride=", // else X clients may change the settings
		// The clipboard is synchronized both ways; the primary selection is not.
		"-SetPrimary=0", "-SendPrimary=0",
	}
}

// writePasswords creates the display's passwords and the file from which the
// server reads them: eight bytes each, the view-only one last.
func writePasswords(d dirs, uid int) (Display, error) {
	vnc := Display{Socket: d.vncSocket, Password: newVNCPassword(), ViewPassword: newVNCPassword()}
	raw, err := encodePasswords(vnc.Password, vnc.ViewPassword)
	if err != nil {
		return Display{}, err
	}
	return vnc, writeOwned(d.vncAuth, raw, uid)
}

// newVNCPassword returns a password of eight characters, the maximum of VNC
// authentication.
func newVNCPassword() string {
	raw := make([]byte, 6)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// encodePasswords encodes eight-byte passwords as VNC password files do: DES with a
// well-known key. The file mode protects them, not the encoding.
func encodePasswords(passwords ...string) ([]byte, error) {
	// 23, 82, 107, 6, 35, 78, 88, 7 with the bits of each byte reversed, as
	// VNC's DES takes its keys.
	block, err := des.NewCipher([]byte{0xe8, 0x4a, 0xd6, 0x60, 0xc4, 0x72, 0x1a, 0xe0}) //nolint:gosec // part of the format
	if err != nil {
		return nil, err
	}
	var file []byte
	for _, p := range passwords {
		part := make([]byte, des.BlockSize)
		block.Encrypt(part, []byte(p))
		file = append(file, part...)
	}
	return file, nil
}

// writeCookie writes an Xauthority file of one entry, valid for any address
// and display number (the server's number is not known yet).
func writeCookie(path string, uid int) error {
	cookie := make([]byte, 16)
	rand.Read(cookie)
	const familyWild = 0xffff
	raw := binary.BigEndian.AppendUint16(nil, familyWild)
	for _, field := range []string{"", "", "MIT-MAGIC-COOKIE-1", string(cookie)} {
		raw = binary.BigEndian.AppendUint16(raw, uint16(len(field)))
		raw = append(raw, field...)
	}
	return writeOwned(path, raw, uid)
}

// writeOwned writes a file that only uid can read, or only the worker's user if uid
// is negative.
func writeOwned(path string, raw []byte, uid int) error {
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return err
	}
	if uid < 0 {
		return nil
	}
	return os.Chown(path, uid, uid)
}
