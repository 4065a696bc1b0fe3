package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	edgeURL   = "https://" + controlAddress + ":30443"
	cloudHost = "cloud.test"
	pageURL   = "http://page.default.svc.cluster.local:8080/"

	workerGrace = 5*time.Second + 2*time.Minute + 50*time.Second // of the values: delay, drain timeout, save timeout and 20 s
)

//go:embed page.yaml
var page string

// proof is an installed chart.
type proof struct {
	*cluster
	fleet fleet
}

type namedProof struct {
	name string
	run  func(context.Context, *proof) error
}

func proofs() []namedProof {
	return []namedProof{
		{"launches", launches}, {"isolation", isolation}, {"network", network}, {"upgrade", upgrade}, {"deletion", deletion}, {"scale", scale}, {"restart", restart}, {"drain", drain},
	}
}

func proofNames() []string {
	var names []string
	for _, p := range proofs() {
		names = append(names, p.name)
	}
	return names
}

func selectProofs(names string) ([]namedProof, error) {
	if names == "" {
		return proofs(), nil
	}
	var selected []namedProof
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(proofNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("--proofs: there is no %q; the proofs are %s", name, strings.Join(proofNames(), ", "))
		}
		selected = append(selected, proofs()[i])
	}
	return selected, nil
}

// upgrade installs or upgrades the release with further arguments.
func (p *proof) upgrade(ctx context.Context, args ...string) error {
	_, err := p.helm(ctx, append([]string{"upgrade", "svc", chart, "--values", "scripts/kubernetes/values.yaml", "--timeout", "10m"}, args...)...)
	return err
}

// await waits for the rollout of these objects.
func (p *proof) await(ctx context.Context, objects ...string) error {
	for _, object := range objects {
		if _, err := p.kubectl(ctx, "rollout", "status", object, "--timeout=15m"); err != nil {
			return err
		}
	}
	return nil
}

// get returns a field of an object.
func (p *proof) get(ctx context.Context, object, field string) (string, error) {
	return p.kubectl(ctx, "get", object, "--ignore-not-found", "-o", "jsonpath={"+field+"}")
}

// launches opens a page with playwright in 30 browsers, six at once.
func launches(ctx context.Context, p *proof) error {
	var t tally
	var all sync.WaitGroup
	turns := make(chan struct{}, 6)
	for range 30 {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			began := time.Now()
			s, err := p.fleet.launch(ctx)
			if err != nil {
				t.failed(&t.failures, err)
				return
			}
			t.launched(s, time.Since(began))
			if err := p.fleet.open(ctx, s, pageURL, p.pki("ca.crt")); err != nil {
				t.failed(&t.lost, err)
			}
			if err := p.fleet.end(ctx, s); err != nil {
				t.failed(&t.lost, err)
			}
		})
	}
	all.Wait()
	if len(t.workers) != 3 {
		return errors.Join(t.result("launches with playwright"), fmt.Errorf("launches reached only the workers %v", t.workers))
	}
	return errors.Join(t.result("launches with playwright"), p.scrape(ctx))
}

// scrape reads the metrics of all pods.
func (p *proof) scrape(ctx context.Context) error {
	for component, metric := range map[string]string{"cloud:9090": "svc_cloud_build_info", "worker:9090": "svc_worker_launches_total", "edge:8405": "haproxy_process_build_info"} {
		component, port, _ := strings.Cut(component, ":")
		pods, err := p.kubectl(ctx, "get", "pods", "-l", "app.kubernetes.io/component="+component, "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return err
		}
		for pod := range strings.FieldsSeq(pods) {
			text, err := p.kubectl(ctx, "get", "--raw", "/api/v1/namespaces/default/pods/"+pod+":"+port+"/proxy/metrics")
			if err != nil {
				return err
			}
			if !strings.Contains(text, metric) {
				return fmt.Errorf("the metrics of %s lack %s", pod, metric)
			}
		}
	}
	return nil
}

// upgrade replaces the cloud, the workers and the edge by another version during constant launches.
func upgrade(ctx context.Context, p *proof) error {
	load := p.fleet.startLoad(ctx)
	began := time.Now()
	err := p.upgrade(ctx, "--set", "cloud.image.tag=second,worker.image.tag=second,edge.podAnnotations.version=second")
	if err == nil {
		err = p.await(ctx, "deployment/svc-cloud", "deployment/svc-edge", "statefulset/svc-worker")
	}
	logf("the upgrade took %.0f s", time.Since(began).Seconds())
	images, imagesErr := p.kubectl(ctx, "get", "pods", "-l", "app.kubernetes.io/component in (cloud, worker)", "--field-selector=status.phase=Running",
		"-o", "jsonpath={.items[*].spec.containers[0].image}")
	if strings.Count(images, ":second") < 5 {
		imagesErr = errors.Join(imagesErr, fmt.Errorf("the images after the upgrade are %s", images))
	}
	return errors.Join(err, imagesErr, load.finish("upgrade of cloud, workers and edge under constant launches"))
}

// deletion deletes a worker with sessions. They continue until they end, and the worker then stops by itself.
func deletion(ctx context.Context, p *proof) error {
	h := p.fleet.holdSessions(ctx, 9)
	name := "svc-worker-1"
	end := make(chan ended, 1)
	old, err := p.get(ctx, "pod/"+name, ".metadata.uid")
	if err != nil {
		return err
	}
	if _, err := p.kubectl(ctx, "delete", "pod", name, "--wait=false"); err != nil {
		return err
	}
	began := time.Now()
	go func() { end <- p.watchEnd(ctx, name, old) }()
	sleep(ctx, 30*time.Second)
	err = h.release(fmt.Sprintf("sessions while %s, which has %d of them, is deleted, released after 30 s", name, h.workers[name]))
	pod := <-end
	logf("%s ended %.0f s after its deletion with the exit code %d; its grace period is %.0f s", name, pod.time.Sub(began).Seconds(), pod.code, workerGrace.Seconds())
	switch {
	case h.workers[name] == 0:
		err = errors.Join(err, fmt.Errorf("%s had no session", name))
	case pod.err != nil || pod.code != 0 || pod.time.Sub(began) > workerGrace || pod.time.Sub(began) < 30*time.Second:
		err = errors.Join(err, pod.err, fmt.Errorf("%s did not drain: exit code %d", name, pod.code))
	}
	return errors.Join(err, p.await(ctx, "statefulset/svc-worker"))
}

// ended is the end of a pod.
type ended struct {
	time time.Time
	code int
	err  error
}

// watchEnd waits until the pod with this name and id is deleted. It watches, because the state of a container that has
// ended exists for a moment only.
func (p *proof) watchEnd(ctx context.Context, name, uid string) ended {
	ctx, cancel := context.WithTimeout(ctx, 2*workerGrace)
	defer cancel()
	command := exec.CommandContext(ctx, p.bin("kubectl"), "--kubeconfig", p.kubeconfig(), "get", "pod", name, "--watch", "--output-watch-events", "-o", "json")
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return ended{err: err}
	}
	defer func() { cancel(); _ = command.Wait() }()
	e := ended{code: -1}
	for events := json.NewDecoder(out); ; {
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ UID string }
				Status   struct {
					ContainerStatuses []struct {
						State struct{ Terminated *struct{ ExitCode int } }
					}
				}
			}
		}
		if err := events.Decode(&event); err != nil {
			return ended{time.Now(), e.code, fmt.Errorf("the end of %s: %w", name, errors.Join(ctx.Err(), err))}
		}
		if event.Object.Metadata.UID != uid {
			continue
		}
		for _, status := range event.Object.Status.ContainerStatuses {
			if status.State.Terminated != nil {
				e.code = status.State.Terminated.ExitCode
			}
		}
		if event.Type == "DELETED" {
			e.time = time.Now()
			return e
		}
	}
}

// scale scales the workers to five and then to two, with sessions on all of them.
func scale(ctx context.Context, p *proof) error {
	load := p.fleet.startLoad(ctx)
	began := time.Now()
	err := p.scaleTo(ctx, 5)
	if err == nil {
		_, err = p.fleet.launchOn(ctx, []string{"svc-worker-3", "svc-worker-4"})
		logf("a new worker launched its first browser %.1f s after the scale-out", time.Since(began).Seconds())
	}
	err = errors.Join(err, p.await(ctx, "statefulset/svc-worker"))
	sleep(ctx, life) // until the new workers have sessions, too
	h := p.fleet.holdSessions(ctx, 5)
	err = errors.Join(err, p.scaleTo(ctx, 2))
	sleep(ctx, 30*time.Second)
	remaining, countErr := p.get(ctx, "statefulset/svc-worker", ".status.replicas")
	err = errors.Join(err, countErr, h.release("sessions of 30 s during the scale-in"), load.finish("launches while 3 workers become 5 and then 2"))
	err = errors.Join(err, retry(ctx, workerGrace, "two workers", func(ctx context.Context) error {
		pods, err := p.kubectl(ctx, "get", "pods", "-l", "app.kubernetes.io/component=worker", "-o", "name")
		if count := strings.Count(pods, "\n"); err == nil && count != 2 {
			err = fmt.Errorf("%d workers", count)
		}
		return err
	}))
	for _, name := range []string{"svc-worker-3", "svc-worker-4"} {
		if load.workers[name]+h.workers[name] == 0 {
			err = errors.Join(err, fmt.Errorf("%s had no session", name))
		}
	}
	logf("%s workers still existed 30 s after the scale-in, 2 after their sessions", remaining)
	return errors.Join(err, p.scaleTo(ctx, 3), p.await(ctx, "statefulset/svc-worker"))
}

func (p *proof) scaleTo(ctx context.Context, count int) error {
	_, err := p.kubectl(ctx, "scale", "statefulset/svc-worker", fmt.Sprint("--replicas=", count))
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
