// Package display starts the X server of a headful browser, which is also its VNC server, and
// removes its files: those of its own servers, and those that an earlier worker left. A Server
// owns a goroutine that copies its output until it ends.
package display

import (
	"bufio"
	"context"
	"crypto/des" //nolint:gosec // the format of VNC's password files
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/process"
)

const socketDir = "/tmp/.X11-unix"

// VNC is the VNC server of a headful browser's display (RFB 3.8, VNC
// authentication). Only the worker and the browser's user can connect to its
// socket.
type VNC struct {
	Socket       string // path
	Password     string // allows input
	ViewPassword string // allows viewing only
}

// Server is the X server of one launch. Clients need its socket and its cookie.
type Server struct {
	Number    int
	Socket    SocketID
	VNC       VNC
	proc      *process.Process
	owner     int       // user id of the server
	startedAt time.Time // before the server
	once      sync.Once
}

// SocketID distinguishes a display's socket from a later one with the same name;
// inode numbers alone are reused too soon. The zero value means none.
type SocketID struct {
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed"` // nanoseconds
}

// SocketPath returns the path of the socket of X clients.
func SocketPath(number int) string { return fmt.Sprintf("%s/X%d", socketDir, number) }

// Options describes an X server.
type Options struct {
	Program string // Xvnc
	Size    settings.Size
	UID     int      // runs the server; negative for the worker's own
	Env     []string // of the server
	Dir     string   // its working directory

	// Files that are created: the cookie of X clients, the VNC server's socket, its passwords.
	XAuthority, Socket, Passwords string
}

// Start starts an X server and waits until it is ready. The server chooses a free
// display number and reports it, so two servers never collide.
func Start(ctx context.Context, s *process.Starter, o Options) (*Server, error) {
	if err := writeCookie(o.XAuthority, o.UID); err != nil {
		return nil, fmt.Errorf("display: %w", err)
	}
	vnc, err := writePasswords(o)
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
	log := &process.Tail{}
	stderr, stop, err := log.Pipe()
	if err != nil {
		reports.Close()
		return nil, fmt.Errorf("display: %w", err)
	}
	args := append([]string{"-displayfd", "3",
		"-geometry", fmt.Sprintf("%dx%d", o.Size.Width, o.Size.Height), "-depth", "24",
		"-nolisten", "tcp", "-auth", o.XAuthority, "-s", "0", "-noreset"}, vncArgs(o)...)
	cmd := exec.Command(o.Program, args...) //nolint:noctx // ended by stop
	cmd.Env, cmd.Dir = o.Env, o.Dir
	cmd.ExtraFiles, cmd.Stderr = []*os.File{reports}, stderr
	disp := &Server{VNC: vnc, owner: o.UID, startedAt: time.Now()}
	if o.UID < 0 {
		disp.owner = os.Getuid()
	}
	proc, err := s.Start(cmd, o.UID)
	reports.Close()
	stderr.Close()
	if err != nil {
		stop()
		return nil, fmt.Errorf("display: %w", err)
	}
	go func() {
		<-proc.Died
		stop()
	}()
	disp.proc = proc
	if err := disp.await(ctx, number); err != nil {
		disp.Stop()
		stop() // the log is complete
		return nil, fmt.Errorf("display: %w: %s", err, log.LastLines(5))
	}
	return disp, nil
}

func (d *Server) await(ctx context.Context, number *os.File) error {
	defer context.AfterFunc(ctx, func() { _ = number.SetReadDeadline(time.Now()) })()
	line, err := bufio.NewReader(number).ReadString('\n')
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the X server reported no display number: %w", err)
	}
	if d.Number, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		return fmt.Errorf("the X server reported no display number: %w", err)
	}
	d.Socket, err = statSocket(SocketPath(d.Number))
	return err
}

// Stop kills the server and removes its files in /tmp. The socket is removed
// first: while the server lives, no other server takes its number.
func (d *Server) Stop() {
	d.once.Do(func() {
		RemoveSocket(d.Number, d.Socket)
		d.proc.Kill()
		<-d.proc.Died
		if d.Socket == (SocketID{}) {
			RemoveOrphanedSockets(d.owner, d.startedAt)
		}
		if d.owner != os.Getuid() {
			removeKeymaps(d.owner)
		}
	})
}

// answerTimeout limits how long a display may take to answer.
const answerTimeout = 2 * time.Second

// Responds reports whether the X server serves clients: it refuses a connection
// without the cookie at once.
func (d *Server) Responds() bool {
	select {
	case <-d.proc.Died:
		return false
	default:
	}
	if socket, err := statSocket(SocketPath(d.Number)); err != nil || socket != d.Socket {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", SocketPath(d.Number))
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return false
	}
	// The setup request of an X client: little-endian, version 11.0, no authorization.
	if _, err := conn.Write([]byte{'l', 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return false
	}
	n, _ := conn.Read(make([]byte, 1))
	return n > 0
}

// PID returns the id of the server's process.
func (d *Server) PID() int { return d.proc.PID() }

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
func vncArgs(o Options) []string {
	return []string{
		"-rfbport", "-1", "-rfbunixpath", o.Socket, "-rfbunixmode", "0600",
		"-SecurityTypes", "VncAuth", "-PasswordFile", o.Passwords,
		"-UseBlacklist=0", // all who can connect share one address: failures of one would lock out the worker
		"-AlwaysShared", "-AcceptSetDesktopSize=0", "-desktop", "browser",
		"-AllowOverride=", // else X clients may change the settings
		// The clipboard is synchronized both ways; the primary selection is not.
		"-SetPrimary=0", "-SendPrimary=0",
	}
}

// writePasswords creates the display's passwords and the file from which the
// server reads them: eight bytes each, the view-only one last.
func writePasswords(o Options) (VNC, error) {
	vnc := VNC{Socket: o.Socket, Password: newVNCPassword(), ViewPassword: newVNCPassword()}
	raw, err := encodePasswords(vnc.Password, vnc.ViewPassword)
	if err != nil {
		return VNC{}, err
	}
	return vnc, writeOwned(o.Passwords, raw, o.UID)
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
