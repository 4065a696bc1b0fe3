package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"time"
)

// profiler is a file for svc-cloud's main package that writes CPU profiles. It is not
// part of the program; build adds it as an overlay.
//
//go:embed profiler.go.txt
var profiler []byte

func (s *testEnv) program() string { return filepath.Join(s.dir, "svc-cloud") }

// build builds svc-cloud as it is released, or with the profiler.
func (s *testEnv) build(ctx context.Context) error {
	arguments := []string{"build", "-trimpath", "-o", s.program()}
	if s.profiles != "" {
		overlay, err := s.overlay(ctx)
		if err != nil {
			return err
		}
		arguments = append(arguments, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(arguments, "github.com/browser-svc/svc/cloud")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build svc-cloud: %w\n%s", err, out)
	}
	return nil
}

// overlay writes the build overlay with the profiler.
func (s *testEnv) overlay(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/browser-svc/svc/cloud").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of svc-cloud: %w", err)
	}
	source, list := filepath.Join(s.dir, "profiler.go"), filepath.Join(s.dir, "overlay.json")
	if err := os.WriteFile(source, profiler, 0o644); err != nil {
		return "", err
	}
	at := filepath.Join(string(out[:len(out)-1]), "profiler.go")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {at: source}})
	if err != nil {
		return "", err
	}
	return list, os.WriteFile(list, text, 0o644)
}

// cloudProfile is the path of svc-cloud's profile.
func (s *testEnv) cloudProfile() string { return filepath.Join(s.profiles, "svc-cloud.pprof") }

// profiled writes a CPU profile of this process while a side is measured; the last
// profile is kept. Without --profile it returns the side itself.
func (b *bench) profiled(name string, measure side) side {
	if b.profiles == "" {
		return measure
	}
	return func(ctx context.Context) (load, error) {
		file, err := os.Create(filepath.Join(b.profiles, name+".pprof"))
		if err != nil {
			return load{}, err
		}
		defer file.Close()
		return b.explained(name, func(ctx context.Context) (load, error) {
			if err := pprof.StartCPUProfile(file); err != nil {
				return load{}, err
			}
			defer pprof.StopCPUProfile()
			return measure(ctx)
		})(ctx)
	}
}

// profiledCloud is profiled for svc-cloud.
func (b *bench) profiledCloud(name string, measure side) side {
	if b.profiles == "" {
		return measure
	}
	return b.explained(name, func(ctx context.Context) (load, error) {
		if err := b.cloud.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return load{}, err
		}
		l, err := measure(ctx)
		if err != nil {
			return l, err
		}
		if err := b.cloud.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return l, err
		}
		return l, b.takeProfile(ctx, filepath.Join(b.profiles, name+".pprof"))
	})
}

// takeProfile renames svc-cloud's profile once it is complete.
func (b *bench) takeProfile(ctx context.Context, to string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := os.Rename(b.cloudProfile(), to)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("svc-cloud wrote no profile: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
