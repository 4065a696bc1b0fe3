package builds

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
)

// maxOutput limits how much of an executable's output is kept, in bytes.
const maxOutput = 4096

// versionInfo is what an executable prints about itself.
type versionInfo struct {
	product string // Chromium, Google Chrome
	version string // four numbers
	major   int
}

// versionPattern is a product's name and version: Chromium 156.0.8078.79.
var versionPattern = lazy.Regexp(`^([A-Z][A-Za-z]*(?: [A-Za-z]+)*) ((\d{1,4})\.0\.\d{3,5}\.\d{1,5})\b`)

var elfMachines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkExecutable returns why path is not an executable for this machine.
func checkExecutable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return errors.New("not an executable file")
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var header struct {
		Ident         [elf.EI_NIDENT]byte
		Type, Machine uint16
	}
	if err := binary.Read(file, binary.LittleEndian, &header); err != nil || !bytes.HasPrefix(header.Ident[:], []byte(elf.ELFMAG)) {
		return errors.New("not an ELF executable")
	}
	machine, want := elf.Machine(header.Machine), elfMachines[runtime.GOARCH]
	if want != 0 && machine != want {
		return fmt.Errorf("built for another architecture: %s, not %s", machine, want)
	}
	return nil
}

// queryVersion runs an executable with --version, with a timeout and without
// privileges. Its process group is killed afterwards.
func queryVersion(opts FindOptions, path string) (found versionInfo, err error) {
	if err := checkExecutable(path); err != nil {
		return found, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), opts.Timeout)
	defer cancel()
	out, stderr := &headBuffer{}, &headBuffer{}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(opts.UID), Gid: uint32(opts.UID)}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	// The kernel sends the parent-death signal when this thread dies.
	runtime.LockOSThread()
	err = cmd.Run()
	runtime.UnlockOSThread()
	if errors.Is(err, exec.ErrWaitDelay) { // it left a child process
		_ = cmd.Cancel()
	}
	match := versionPattern().FindSubmatch(out.text)
	switch {
	case ctx.Err() != nil:
		return found, fmt.Errorf("query version: no output within %s", opts.Timeout)
	case err != nil:
		line, _, _ := bytes.Cut(bytes.TrimSpace(stderr.text), []byte("\n"))
		return found, fmt.Errorf("query version: %w: %.200q", err, line)
	case match == nil:
		return found, fmt.Errorf("query version: no version in the output %.80q", out.text)
	}
	found.product, found.version = string(match[1]), string(match[2])
	found.major, err = strconv.Atoi(string(match[3]))
	return found, err
}

// isTransient reports whether an error comes from a shortage on this machine and
// not from the executable.
func isTransient(err error) bool {
	return slices.ContainsFunc([]error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY},
		func(target error) bool { return errors.Is(err, target) })
}

// headBuffer keeps the first bytes written to it.
type headBuffer struct{ text []byte }

func (h *headBuffer) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), maxOutput-len(h.text))]...)
	return len(p), nil
}

// loadsExtensions reports whether a complete browser loads the extensions of its command
// line: Google Chrome does not since version 137, Chromium and Chrome for Testing do.
func (v versionInfo) loadsExtensions() bool { return v.product != "Google Chrome" || v.major < 137 }
