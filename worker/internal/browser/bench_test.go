package browser_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// BenchmarkLaunch measures the time from the start to the first answer, compared
// with a Chromium started without the launcher. Kills are not measured. The last case
// measures the time from a crash until the worker knows of it.
func BenchmarkLaunch(b *testing.B) {
	dir, err := os.MkdirTemp("", "browser-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	installed, err := builds.NewFinder(builds.FindOptions{}).Find(b.Context())
	if err != nil || len(installed) == 0 {
		b.Fatalf("no Chromium: %v", err)
	}
	l, err := browser.NewLauncher(browser.Options{Dir: filepath.Join(dir, "launches")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	launch := func(b *testing.B, spec browser.Spec) time.Duration {
		start := time.Now()
		br, err := l.Launch(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		took := time.Since(start)
		if err := br.Kill(b.Context()); err != nil {
			b.Fatal(err)
		}
		return took
	}
	for name, once := range map[string]func(b *testing.B, n int) time.Duration{
		"direct": func(b *testing.B, n int) time.Duration {
			return timeDirectLaunch(b, installed[0].Path, fmt.Sprintf("%s/direct%d", dir, n))
		},
		"headless": func(b *testing.B, n int) time.Duration {
			return launch(b, browser.Spec{LaunchID: fmt.Sprint("h", n), Build: installed[0], Headless: true})
		},
		"headless-emulated": func(b *testing.B, n int) time.Duration {
			return launch(b, browser.Spec{LaunchID: fmt.Sprint("e", n), Build: installed[0], Headless: true, Emulation: settings.Emulation{Viewport: &settings.Size{Width: 800, Height: 600}}})
		},
		"headful": func(b *testing.B, n int) time.Duration {
			return launch(b, browser.Spec{LaunchID: fmt.Sprint("w", n), Build: installed[0]})
		},
		"crash": func(b *testing.B, n int) time.Duration {
			br, err := l.Launch(b.Context(), browser.Spec{LaunchID: fmt.Sprint("c", n), Build: installed[0], Headless: true})
			if err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			if err := syscall.Kill(br.PID(), syscall.SIGKILL); err != nil {
				b.Fatal(err)
			}
			<-br.Done()
			return time.Since(start)
		},
	} {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			for n := 0; b.Loop(); n++ {
				all = append(all, once(b, n))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Milliseconds()), "ms-median")
			b.ReportMetric(float64(all[0].Milliseconds()), "ms-min")
		})
	}
}

func timeDirectLaunch(b *testing.B, path, dir string) time.Duration {
	const uid = 65534
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	toBrowser, fromUs, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	toUs, fromBrowser, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer fromUs.Close()
	defer toUs.Close()
	cmd := exec.Command(path, "--headless", "--remote-debugging-pipe", "--remote-debugging-port=0", "--user-data-dir="+dir, "about:blank")
	cmd.Env, cmd.ExtraFiles = []string{"HOME=" + dir, "TMPDIR=" + dir}, []*os.File{toBrowser, fromBrowser}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, uid, uid); err != nil {
			b.Fatal(err)
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	fmt.Fprint(fromUs, `{"id":1,"method":"Browser.getVersion"}`+"\x00")
	if _, err := bufio.NewReader(toUs).ReadBytes(0); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Wait()
	return took
}

// BenchmarkIsolatedLaunch measures the cost of isolation. It alternates launches with
// and without isolation and reports the medians of the worker's share, until the
// program runs, and of the total.
func BenchmarkIsolatedLaunch(b *testing.B) {
	installed, err := builds.NewFinder(builds.FindOptions{}).Find(b.Context())
	if err != nil || len(installed) == 0 {
		b.Fatalf("no Chromium: %v", err)
	}
	type kind struct {
		name        string
		launcher    *browser.Launcher
		headless    bool
		own, answer []time.Duration
	}
	var kinds []*kind
	for _, how := range []*sandbox.Options{nil, {Disk: 1 << 30, Processes: 4096}} {
		l, err := browser.NewLauncher(browser.Options{Dir: filepath.Join(testenv.PublicTempDir(b), "launches"), Isolation: how})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Close() })
		for _, headless := range []bool{true, false} {
			kinds = append(kinds, &kind{name: fmt.Sprintf("headless=%t/sealed=%t", headless, how != nil), launcher: l, headless: headless})
		}
	}
	for n := 0; b.Loop(); n++ {
		for _, k := range kinds {
			br, err := k.launcher.Launch(b.Context(), browser.Spec{LaunchID: fmt.Sprintf("l%d-%t", n, k.headless), Build: installed[0], Headless: k.headless})
			if err != nil {
				b.Fatal(err)
			}
			k.own = append(k.own, br.ExecutedAt.Sub(br.StartedAt))
			k.answer = append(k.answer, br.AnsweredAt.Sub(br.StartedAt))
			if err := br.Kill(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, k := range kinds {
		for unit, all := range map[string][]time.Duration{"own": k.own, "answer": k.answer} {
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, k.name+"-"+unit+"-ms")
		}
	}
}
