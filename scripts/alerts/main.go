// Program alerts fires three alerts in a real Prometheus with the rules of
// scripts/monitoring: it runs svc-cloud and two workers, drains a worker, and kills the
// other and the cloud. No other alert may fire, and none before. It takes ten minutes,
// because it waits as long as the rules say.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/browser-svc/svc/scripts/children"
)

const (
	quiet    = time.Minute // without an alert, before the faults
	deadline = 10 * time.Minute
	poll     = 5 * time.Second
	key      = "wrk_alerts" // the key of the workers
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "svc-alerts-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // browsers and PostgreSQL run as other users
		return err
	}
	if err := children.Build(ctx, dir, "cloud", "worker"); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-modfile=scripts/tools/monitoring/go.mod", "-tags=remove_all_sd",
		"-o", filepath.Join(dir, "prometheus"), "github.com/prometheus/prometheus/cmd/prometheus")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build Prometheus: %w\n%s", err, out)
	}
	t := &alertTest{dir: dir}
	defer func() { err = errors.Join(err, t.stop()) }()
	if err := t.start(ctx); err != nil {
		return err
	}
	if err := t.expect(ctx, quiet); err != nil {
		return fmt.Errorf("without a fault: %w", err)
	}
	if err := t.breakAll(ctx); err != nil {
		return err
	}
	return t.expect(ctx, deadline, "SvcCloudDown", "SvcNoWorkerAvailable", "SvcWorkerDown")
}

// alertTest is the running programs.
type alertTest struct {
	dir        string
	prometheus string // its URL
	drained    string // the URL of the worker that stays
	all        []*children.Child
}

// start starts the cloud, two workers, and a Prometheus that scrapes them.
func (t *alertTest) start(ctx context.Context) error {
	var targets []string
	var cloud string
	for _, name := range []string{"cloud", "drained", "killed"} {
		port, metrics, err := twoPorts(ctx)
		if err != nil {
			return err
		}
		url := "http://127.0.0.1:" + port
		program, environment := "svc-worker", []string{"API_KEY=" + key, "SVC_KEY=none", "WARM_POOL=0", "SVC_CLOUD_URL=" + cloud}
		switch name {
		case "cloud":
			program, environment, cloud = "svc-cloud", nil, url
		case "drained":
			t.drained = url
		}
		targets = append(targets, "127.0.0.1:"+metrics)
		environment = append(environment, "PORT="+port, "METRICS_ADDR=127.0.0.1:"+metrics, "DATA_DIR="+filepath.Join(t.dir, name))
		if err := t.run(ctx, name, program, url+"/readyz", environment); err != nil {
			return err
		}
	}
	rules, err := filepath.Abs("scripts/monitoring/rules/*.yaml")
	if err != nil {
		return err
	}
	// JSON is YAML.
	config, err := json.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "5s", "evaluation_interval": "5s"},
		"rule_files":     []string{rules},
		"scrape_configs": []any{map[string]any{"job_name": "svc", "static_configs": []any{map[string]any{"targets": targets}}}},
	})
	if err != nil {
		return err
	}
	file := filepath.Join(t.dir, "prometheus.yaml")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return err
	}
	port, err := children.FreePort(ctx)
	if err != nil {
		return err
	}
	t.prometheus = "http://127.0.0.1:" + port
	return t.run(ctx, "prometheus", "prometheus", t.prometheus+"/-/ready", nil,
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(t.dir, "tsdb"), "--web.listen-address=127.0.0.1:"+port)
}

func twoPorts(ctx context.Context) (first, second string, err error) {
	first, err = children.FreePort(ctx)
	if err != nil {
		return "", "", err
	}
	for second = first; second == first && err == nil; {
		second, err = children.FreePort(ctx)
	}
	return first, second, err
}

func (t *alertTest) run(ctx context.Context, name, program, health string, environment []string, args ...string) error {
	child, err := children.Start(ctx, children.Program{
		Name: name, Path: filepath.Join(t.dir, program), Args: args, Log: filepath.Join(t.dir, name+".log"), Health: health, Environment: environment,
	})
	if child != nil {
		t.all = append(t.all, child)
	}
	return err
}

// breakAll drains one worker, and stops the other and the cloud.
func (t *alertTest) breakAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.drained+"/fleet/drain", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	request.Header = http.Header{"X-Api-Key": {key}, "Content-Type": {"application/json"}}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("drain: %s", answer.Status)
	}
	var errs []error
	t.all = slices.DeleteFunc(t.all, func(c *children.Child) bool {
		if c.Name != "cloud" && c.Name != "killed" {
			return false
		}
		errs = append(errs, c.Stop())
		return true
	})
	return errors.Join(errs...)
}

// expect waits until these alerts fire, and no others, or until the time is over.
// Without names it waits for the whole time.
func (t *alertTest) expect(ctx context.Context, wait time.Duration, names ...string) error {
	began := time.Now()
	for {
		firing, err := t.firing(ctx)
		if err != nil {
			return err
		}
		if len(names) > 0 && slices.Equal(firing, names) {
			fmt.Printf("after %v: %s\n", time.Since(began).Round(time.Second), strings.Join(firing, ", "))
			return nil
		}
		for _, alert := range firing {
			if !slices.Contains(names, alert) {
				return fmt.Errorf("unexpected alert %s", alert)
			}
		}
		if time.Since(began) > wait {
			if len(names) > 0 {
				return fmt.Errorf("after %v only these alerts fire: %q, want %q", wait, firing, names)
			}
			fmt.Printf("no alert for %v\n", wait)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
	}
}

// firing returns the names of the alerts that fire, sorted.
func (t *alertTest) firing(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.prometheus+"/api/v1/alerts", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var found struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels struct{ Alertname string }
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		return nil, err
	}
	var names []string
	for _, alert := range found.Data.Alerts {
		if alert.State == "firing" {
			names = append(names, alert.Labels.Alertname)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (t *alertTest) stop() error {
	var errs []error
	for _, child := range slices.Backward(t.all) {
		errs = append(errs, child.Stop())
	}
	return errors.Join(errs...)
}
