package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// chromium is the build that the worker launches.
type chromium struct {
	path    string
	version string // "Chromium" and its number
	major   int
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
			return chromium{path, "Chromium " + string(match[0]), major}, err
		}
	}
	return chromium{}, errors.New("no Chromium found: run scripts/need chromium")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// arguments returns the switches with which the worker starts Chromium, without
// the start page.
func (w *worker) arguments(ctx context.Context) (found []string, err error) {
	s, err := w.launch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.end(ctx, s)) }()
	for _, p := range descendants(w.PID()) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		line := strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " ")) // Chromium replaces the zero bytes with spaces
		if err != nil || !strings.Contains(line, "--remote-debugging-pipe") || strings.Contains(line, "--type=") {
			continue
		}
		for _, argument := range strings.Split(strings.TrimSuffix(line, " about:blank"), " --")[1:] {
			if name, _, _ := strings.Cut(argument, "="); !slices.Contains(perLaunchSwitches, name) {
				found = append(found, "--"+argument)
			}
		}
		return found, nil
	}
	return nil, errors.New("the worker's browser is not among its processes")
}

// perLaunchSwitches are the switches that differ between launches of the worker.
var perLaunchSwitches = []string{"user-data-dir", "svc-launch", "proxy-server", "proxy-bypass-list"}

// measureBaseline starts Chromium in a new data directory, as a separate user if
// this program runs as root. It returns the time until Chromium responds to
// Browser.getVersion on its pipe, in milliseconds.
func measureBaseline(ctx context.Context, path string, arguments []string, dir string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	home, err := os.MkdirTemp(dir, "baseline-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	const uid = 60999 // below the user ids of the worker
	own := append([]string{"--user-data-dir=" + home}, arguments...)
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
		return 0, fmt.Errorf("baseline Chromium: %w\n%s", err, complaint.String())
	}
	return milliseconds(time.Since(began)), nil
}
