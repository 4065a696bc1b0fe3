package browser

import (
	"bufio"
	"context"
	"crypto/rand"
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
)

const socketDir = "/tmp/.X11-unix"

// display is one launch's own X server, reachable by its socket alone and
// with its cookie only.
type display struct {
	number int
	socket socketID
	proc   *process
	once   sync.Once
}

// socketID tells a display's socket from a later one of the same name; inode
// numbers alone come back too soon. The zero value is no socket.
type socketID struct {
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed"` // nanoseconds
}

func socketPath(number int) string { return fmt.Sprintf("%s/X%d", socketDir, number) }

// startDisplay starts an X server as uid and waits until it serves. The
// server picks a free number itself and reports it, so two never collide.
func startDisplay(ctx context.Context, s *starter, program string, d dirs, uid int, size Size) (*display, error) {
	if err := writeCookie(d.xauth, uid); err != nil {
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
	stderr, stop, err := log.follow()
	if err != nil {
		reports.Close()
		return nil, fmt.Errorf("display: %w", err)
	}
	cmd := exec.Command(program, "-displayfd", "3", //nolint:noctx // stop ends it, after its browser
		"-geometry", fmt.Sprintf("%dx%d", size.Width, size.Height), "-depth", "24",
		"-SecurityTypes", "None", "-rfbport", "-1", "-nolisten", "tcp",
		"-auth", d.xauth, "-s", "0", "-noreset")
	cmd.Env, cmd.Dir = baseEnv(d), d.home
	cmd.ExtraFiles, cmd.Stderr = []*os.File{reports}, stderr
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
	disp := &display{proc: proc}
	if err := disp.await(ctx, number); err != nil {
		disp.stop()
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
		return fmt.Errorf("the X server gave no number: %w", err)
	}
	if d.number, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		return fmt.Errorf("the X server gave no number: %w", err)
	}
	d.socket, err = identify(socketPath(d.number))
	return err
}

// stop kills the server and removes what it leaves in /tmp. The socket goes
// first: while the server lives, nobody else takes its number.
func (d *display) stop() {
	d.once.Do(func() {
		removeSocket(d.number, d.socket)
		d.proc.kill()
		<-d.proc.died
	})
}

// removeSocket removes a display's socket and lock unless another server has
// taken the number since.
func removeSocket(number int, socket socketID) bool {
	if got, err := identify(socketPath(number)); err != nil || got != socket {
		return false
	}
	os.Remove(fmt.Sprintf("/tmp/.X%d-lock", number))
	return os.Remove(socketPath(number)) == nil
}

func identify(path string) (socketID, error) {
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
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return err
	}
	if uid < 0 {
		return nil
	}
	return os.Chown(path, uid, uid)
}
