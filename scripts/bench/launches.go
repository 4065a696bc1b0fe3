package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// chromium is the build that the worker launches.
type chromium struct {
	path  string
	major int
}

var version = regexp.MustCompile(`(\d+)\.\d+\.\d+\.\d+`)

func findChromium(ctx context.Context) (chromium, error) {
	for _, path := range []string{os.Getenv("CHROMIUM_PATH"), "/usr/lib/chromium/chromium", "/opt/google/chrome/chrome", "/usr/lib/chromium-browser/chromium-browser"} {
		if path == "" {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "--version").Output() //nolint:gosec // the operator names it
		if match := version.FindSubmatch(out); err == nil && match != nil {
			major, err := strconv.Atoi(string(match[1]))
			return chromium{path, major}, err
		}
	}
	return chromium{}, errors.New("no Chromium found: scripts/need chromium")
}

// launches compares a launch through REST, cloud included, with a Chromium
// started by hand with the same switches, each to the first CDP answer.
func launches(ctx context.Context, h *house, rounds int) ([]row, error) {
	build, err := findChromium(ctx)
	if err != nil {
		return nil, err
	}
	arguments, err := h.arguments(ctx)
	if err != nil {
		return nil, err
	}
	worker, other, err := interleave(ctx, rounds, h.timeLaunch, func(ctx context.Context) (float64, error) {
		return timeByHand(ctx, build.path, arguments, h.dir)
	})
	return []row{{"launch to the first CDP answer, headless", worker, other, "ms"}}, err
}

// timeLaunch is how long a launch takes, in milliseconds. It is answered when
// the browser has answered on its pipe; the client's own first call is counted,
// too.
func (h *house) timeLaunch(ctx context.Context) (float64, error) {
	began := time.Now()
	s, err := h.launch(ctx)
	if err != nil {
		return 0, err
	}
	p, err := dial(ctx, s.WebSocketDebuggerURL)
	if err != nil {
		return 0, err
	}
	_, err = p.call(ctx, "Browser.getVersion", struct{}{})
	took := time.Since(began)
	_ = p.conn.CloseNow()
	return milliseconds(took), errors.Join(err, h.end(ctx, s))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// arguments are the switches that the worker starts Chromium with.
func (h *house) arguments(ctx context.Context) (found []string, err error) {
	s, err := h.launch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.end(ctx, s)) }()
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		text, err := os.ReadFile(file)
		line := strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " ")) // as Chromium itself shows it, once it runs
		if err != nil || !strings.Contains(line, "--remote-debugging-pipe") || strings.Contains(line, "--type=") || !strings.Contains(line, h.dir+"/") {
			continue
		}
		for _, argument := range strings.Split(strings.TrimSuffix(line, " about:blank"), " --")[1:] {
			found = append(found, "--"+argument)
		}
		return append(found, "about:blank"), nil
	}
	return nil, errors.New("the worker's browser is not among the processes")
}

// timeByHand starts Chromium in a new data directory, as a user of its own when
// we are root, and asks over its pipe for its version, in milliseconds.
func timeByHand(ctx context.Context, path string, arguments []string, dir string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	home, err := os.MkdirTemp(dir, "hand-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	const uid = 60999 // below the worker's
	own := slices.Clone(arguments)
	own = slices.DeleteFunc(own, func(a string) bool {
		return strings.HasPrefix(a, "--user-data-dir=") || strings.HasPrefix(a, "--svc-launch=")
	})
	own = slices.Insert(own, 0, "--user-data-dir="+home)
	toBrowser, commands, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	answers, fromBrowser, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer commands.Close()
	defer answers.Close()
	began := time.Now()
	cmd := exec.CommandContext(ctx, path, own...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8"}
	var complaint bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &complaint, time.Second
	cmd.Dir, cmd.ExtraFiles = home, []*os.File{toBrowser, fromBrowser}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		if err := os.Chown(home, uid, uid); err != nil {
			return 0, err
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	err = cmd.Start()
	_ = toBrowser.Close()
	_ = fromBrowser.Close()
	if err != nil {
		return 0, err
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	if _, err := commands.WriteString("{\"id\":1,\"method\":\"Browser.getVersion\"}\x00"); err != nil {
		return 0, err
	}
	defer context.AfterFunc(ctx, func() { _ = answers.SetReadDeadline(time.Now()) })()
	if _, err := bufio.NewReader(answers).ReadString(0); err != nil {
		return 0, fmt.Errorf("the Chromium started by hand: %w\n%s", err, complaint.String())
	}
	return milliseconds(time.Since(began)), nil
}
