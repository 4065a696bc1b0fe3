package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The test binary acts as a program of a launch, or of the worker, if its first argument is
// one of these.
const (
	holderRole   = "hold"   // has what the second argument, a holding, describes
	attackerRole = "attack" // attacks the holdings of the second argument, and prints the names of successful attacks
)

// holding is what a process has that other launches must not reach.
type holding struct {
	PID      int
	Port     int    // of a server on 127.0.0.1
	Abstract string // name of an abstract Unix socket
	Display  string // path of the socket of an X server
	File     string // path
	Memory   string // path of a file in /dev/shm
	Key      int    // of a System V shared memory segment
}

// secretEnv is in the environment of holders.
const secretEnv = "SANDBOX_TEST_SECRET"

// act runs a role.
func act(role, argument string) {
	var err error
	if role == holderRole {
		var h holding
		if err = json.Unmarshal([]byte(argument), &h); err == nil {
			err = h.hold()
		}
	} else {
		var targets []holding
		err = json.Unmarshal([]byte(argument), &targets)
		for _, h := range targets {
			h.attack()
		}
		if os.Getenv(secretEnv) == "" { // in a sandbox
			attackMetadata()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hold creates everything, the file last, and waits until descriptor 3 is closed.
func (h holding) hold() error {
	for _, address := range [][2]string{{"tcp4", fmt.Sprintf("127.0.0.1:%d", h.Port)}, {"unix", "@" + h.Abstract}, {"unix", h.Display}} {
		if address[1] == "" {
			continue
		}
		l, err := net.Listen(address[0], address[1])
		if err != nil {
			return err
		}
		defer l.Close()
	}
	id, _, errno := unix.Syscall(unix.SYS_SHMGET, uintptr(h.Key), 4096, unix.IPC_CREAT|0o666)
	if errno != 0 {
		return errno
	}
	defer func() { _, _, _ = unix.Syscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0) }()
	for _, path := range []string{h.Memory, h.File} {
		if err := os.WriteFile(path, []byte("secret"), 0o644); err != nil {
			return err
		}
		defer os.Remove(path)
	}
	_, _ = os.NewFile(3, "end").Read(make([]byte, 1))
	return nil
}

// attack tries to reach everything and prints the name of each successful attack.
func (h holding) attack() {
	proc := fmt.Sprintf("/proc/%d/", h.PID)
	for name, succeeds := range map[string]func() bool{
		"arguments":   func() bool { return reads(proc + "cmdline") },
		"environment": func() bool { return reads(proc + "environ") },
		"descriptors": func() bool { return opens(proc+"fd/3", unix.O_PATH) || resolves(proc+"fd/3") },
		"root": func() bool {
			return reads(proc+"root") || reads(filepath.Join(proc, "root", h.File)) || reads(proc+"cwd")
		},
		"memory": func() bool { return reads(proc+"maps") || opens(proc+"mem", unix.O_RDWR) || readsMemory(h.PID) },
		"namespaces": func() bool {
			return opens(proc+"ns/net", unix.O_RDONLY) || entersNamespace(proc+"ns/net") || entersNamespace(proc+"ns/user")
		},
		"signal": func() bool { return signals(h.PID, proc) },
		"trace":  func() bool { return traces(h.PID) },
		"file": func() bool {
			return reads(h.File) || reads(filepath.Dir(h.File)+"/") && filepath.Dir(h.File) != "/svc/data"
		},
		"loopback":     func() bool { return connects("tcp4", fmt.Sprintf("127.0.0.1:%d", h.Port)) },
		"own name":     func() bool { name, _ := os.Hostname(); return connects("tcp", fmt.Sprintf("%s:%d", name, h.Port)) },
		"abstract":     func() bool { return connects("unix", "@"+h.Abstract) },
		"display":      func() bool { return h.Display != "" && connects("unix", h.Display) },
		"shared files": func() bool { return reads(h.Memory) },
		"segment":      func() bool { return attaches(h.Key) },
		"inherited":    func() bool { return os.Getenv(secretEnv) != "" },
	} {
		if succeeds() {
			fmt.Fprintf(os.Stderr, "%d %s\n", h.PID, name)
		}
	}
}

// attackMetadata connects to the metadata service of clouds.
func attackMetadata() {
	for _, address := range []string{"169.254.169.254:80", "[fd00:ec2::254]:80"} {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "network is unreachable") {
			fmt.Fprintf(os.Stderr, "0 metadata: %v\n", err)
		}
	}
}

// reads reports whether a file can be read, or a directory be listed.
func reads(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		names, _ := f.Readdirnames(1)
		return len(names) > 0
	}
	n, _ := f.Read(make([]byte, 1))
	return n > 0
}

func connects(network, address string) bool {
	conn, err := net.DialTimeout(network, address, time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func opens(path string, flags int) bool {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}

func resolves(link string) bool {
	_, err := os.Readlink(link)
	return err == nil
}

func readsMemory(pid int) bool {
	buffer := make([]byte, 1)
	local := []unix.Iovec{{Base: &buffer[0], Len: 1}}
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&buffer[0])), Len: 1}}, 0)
	return err == nil && n > 0 && !isOwn(pid)
}

func entersNamespace(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Setns(fd, 0) == nil
}

// signals reports whether a process can be signaled: by this id or by any other in the PID
// namespace, or over its directory in /proc.
func signals(pid int, proc string) bool {
	for other := 2; other <= max(1<<15, pid); other++ {
		if syscall.Kill(other, 0) == nil && !isOwn(other) {
			return true
		}
	}
	fd, err := unix.Open(proc, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, 0, nil, 0) == nil
}

func traces(pid int) bool {
	if isOwn(pid) {
		return false
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
	return errno == 0
}

// isOwn reports whether the id is a thread of this process.
func isOwn(id int) bool { return unix.Tgkill(os.Getpid(), id, 0) == nil }

func attaches(key int) bool {
	id, _, errno := unix.Syscall(unix.SYS_SHMGET, uintptr(key), 0, 0)
	if errno != 0 {
		return false
	}
	_, _, errno = unix.Syscall(unix.SYS_SHMAT, id, 0, unix.SHM_RDONLY)
	return errno == 0
}
