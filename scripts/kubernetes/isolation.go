package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oasdiff/yaml"
)

// podCase is a kind of worker pod, in a namespace of its own.
type podCase struct {
	level   string // of Pod Security, which the namespace enforces; also its name
	values  string // of the chart
	missing []string
}

var podCases = []podCase{
	{"restricted", "worker.hostUsers=true", []string{"cgroupKill", "processList", "userId"}},
	{"baseline", "worker.hostUsers=false", []string{"cgroupKill"}},
}

const (
	measurements = 3
	testTimeout  = 10 * time.Minute
	lastTests    = "^TestSandbox_ProcessesEnd/^in_a_sandbox$" // as in scripts/images-test
)

// isolation runs the tests of the sandbox in pods like those of the workers, where Pod Security is enforced, and measures
// how soon a new pod launches its first browser.
func isolation(ctx context.Context, p *proof) error {
	script, err := os.ReadFile("scripts/images-test")
	if err != nil {
		return err
	}
	tests := regexp.MustCompile(`(?m)^isolation='(.+)'$`).FindSubmatch(script)
	if tests == nil {
		return errors.New("scripts/images-test has no list of tests")
	}
	var failed []error
	for _, c := range podCases {
		if err := errors.Join(p.prepareNamespace(ctx, c), p.runSandboxTests(ctx, c, string(tests[1])), p.startWorkers(ctx, c)); err != nil {
			failed = append(failed, fmt.Errorf("%s, %s: %w", c.level, c.values, err))
		}
	}
	return errors.Join(failed...)
}

// prepareNamespace creates the namespace of the case, with the keys of the workers.
func (p *proof) prepareNamespace(ctx context.Context, c podCase) error {
	data, err := p.get(ctx, "secret/keys", ".data")
	if err != nil {
		return err
	}
	return p.apply(ctx, fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: %[1]s}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: keys, namespace: %[1]s}, data: %s}
`, c.level, data))
}

// workerPod returns a pod of the chart's workers. change may change its only container.
func (p *proof) workerPod(ctx context.Context, c podCase, name string, change func(spec, container map[string]any)) (string, error) {
	text, err := p.helm(ctx, "template", "svc", chart, "--values", "scripts/kubernetes/values.yaml", "--show-only", "templates/worker.yaml",
		"--set", "worker.persistence.enabled=false,worker.cloudUrl=http://svc-cloud.default:8080,"+c.values)
	if err != nil {
		return "", err
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o struct {
			Kind string
			Spec struct {
				Template struct{ Spec map[string]any }
			}
		}
		if _, err := yaml.Unmarshal([]byte(document), &o, yaml.DecodeOpts{}); err != nil {
			return "", err
		}
		if o.Kind != "StatefulSet" {
			continue
		}
		spec := o.Spec.Template.Spec
		delete(spec, "topologySpreadConstraints")
		spec["restartPolicy"] = "Never"
		change(spec, spec["containers"].([]any)[0].(map[string]any))
		pod, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": c.level}, "spec": spec})
		return string(pod), err
	}
	return "", errors.New("the chart has no StatefulSet of workers")
}

// runSandboxTests runs the tests of worker/internal/browser/sandbox in a pod of the worker.
func (p *proof) runSandboxTests(ctx context.Context, c podCase, tests string) error {
	pod, err := p.workerPod(ctx, c, "tests", func(spec, container map[string]any) {
		for _, field := range []string{"env", "ports", "startupProbe", "readinessProbe", "livenessProbe"} {
			delete(container, field)
		}
		container["image"] = "svc-worker:tests"
		container["command"] = []string{"tini", "--", "sh", "-c", `"$0" -test.v -test.run "$1" && "$0" -test.v -test.run "$2"`, "/work/" + sandboxTests, tests, lastTests}
		spec["volumes"] = append(spec["volumes"].([]any), map[string]any{"name": "var-tmp", "emptyDir": map[string]any{}})
		container["volumeMounts"] = append(container["volumeMounts"].([]any), map[string]any{"name": "var-tmp", "mountPath": "/var/tmp"})
	})
	if err == nil {
		err = p.apply(ctx, pod)
	}
	if err != nil {
		return err
	}
	phase := ""
	err = retry(ctx, testTimeout, "the end of the tests", func(ctx context.Context) (err error) {
		if phase, err = p.kubectl(ctx, "-n", c.level, "get", "pod/tests", "-o", "jsonpath={.status.phase}"); err == nil && phase != "Succeeded" && phase != "Failed" {
			err = errors.New(phase)
		}
		return err
	})
	output, logErr := p.kubectl(ctx, "-n", c.level, "logs", "tests")
	passed := strings.Count(output, "--- PASS")
	if err = errors.Join(err, logErr); err == nil && (phase != "Succeeded" || passed < 10) {
		err = fmt.Errorf("%d tests of worker/internal/browser/sandbox passed: %s", passed, regexp.MustCompile(`(?m)^ *=== .*\n`).ReplaceAllString(output, ""))
	}
	if err == nil {
		logf("%s, %s: %d tests of worker/internal/browser/sandbox passed", c.level, c.values, passed)
	}
	return err
}

// startWorkers starts workers one after another, and measures the time until each has launched a browser.
func (p *proof) startWorkers(ctx context.Context, c podCase) error {
	var took []time.Duration
	for i := range measurements {
		name := fmt.Sprintf("%s-%d", c.level, i)
		pod, err := p.workerPod(ctx, c, name, func(map[string]any, map[string]any) {})
		if err != nil {
			return err
		}
		began := time.Now()
		if err := p.apply(ctx, pod); err != nil {
			return err
		}
		worker := fleet{key: p.fleet.key, client: p.fleet.client}
		var first session
		if err := retry(ctx, 2*time.Minute, "a launch of "+name, func(ctx context.Context) error {
			address, err := p.kubectl(ctx, "-n", c.level, "get", "pod/"+name, "-o", "jsonpath={.status.podIP}")
			if err == nil {
				worker.edge = "http://" + address + ":38923"
				first, err = worker.launch(ctx)
			}
			return err
		}); err != nil {
			return err
		}
		took = append(took, time.Since(began))
		if i == 0 {
			err = c.checkHealth(ctx, worker)
		}
		err = errors.Join(err, worker.end(ctx, first))
		if _, deleted := p.kubectl(ctx, "-n", c.level, "delete", "pod", name); err != nil || deleted != nil {
			return errors.Join(err, deleted)
		}
	}
	slices.Sort(took)
	logf("%s, %s: a pod launched its first browser %.1f s after its creation (median of %d; longest %.1f s)",
		c.level, c.values, took[len(took)/2].Seconds(), len(took), took[len(took)-1].Seconds())
	return nil
}

// checkHealth checks which pieces of isolation are missing, and reports all.
func (c podCase) checkHealth(ctx context.Context, worker fleet) error {
	var health struct{ Isolation struct{ Missing []string } }
	if err := worker.call(ctx, http.MethodGet, worker.edge+"/health", nil, http.StatusOK, &health); err != nil {
		return err
	}
	var status struct {
		Isolation []struct {
			Name    string
			Enabled bool
			Reason  string
		}
	}
	if err := worker.call(ctx, http.MethodGet, worker.edge+"/fleet/status", nil, http.StatusOK, &status); err != nil {
		return err
	}
	for _, piece := range status.Isolation {
		logf("%s, %s: %s %t %s", c.level, c.values, piece.Name, piece.Enabled, piece.Reason)
	}
	if slices.Sort(health.Isolation.Missing); !slices.Equal(health.Isolation.Missing, c.missing) {
		return fmt.Errorf("missing isolation: %v, want %v", health.Isolation.Missing, c.missing)
	}
	return nil
}
