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

	"github.com/browser-svc/svc/worker/internal/browser"
)

// BenchmarkReady measures from the start to the first answer, beside a bare
// Chromium without any of the launcher's arrangements. Ends are not counted.
func BenchmarkReady(b *testing.B) {
	dir, err := os.MkdirTemp("", "browser-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	builds, err := browser.NewFinder(browser.FindOptions{}).Find(b.Context())
	if err != nil || len(builds) == 0 {
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
		"bare": func(b *testing.B, n int) time.Duration {
			return bare(b, builds[0].Path, fmt.Sprintf("%s/bare%d", dir, n))
		},
		"headless": func(b *testing.B, n int) time.Duration {
			return launch(b, browser.Spec{LaunchID: fmt.Sprint("h", n), Build: builds[0], Headless: true})
		},
		"headless-emulated": func(b *testing.B, n int) time.Duration {
			return launch(b, browser.Spec{LaunchID: fmt.Sprint("e", n), Build: builds[0], Headless: true, Viewport: &browser.Size{Width: 800, Height: 600}})
		},
		"headful": func(b *testing.B, n int) time.Duration {
			return launch(b, browser.Spec{LaunchID: fmt.Sprint("w", n), Build: builds[0]})
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

func bare(b *testing.B, path, dir string) time.Duration {
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
