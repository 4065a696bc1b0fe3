package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

// install installs the chart with two replicas of the cloud, three workers, the edge and PostgreSQL.
func install(ctx context.Context, c *cluster) (*proof, error) {
	if err := validate(ctx, c); err != nil {
		return nil, err
	}
	if err := c.apply(ctx, page); err != nil {
		return nil, err
	}
	if err := c.createVolumes(ctx, 8); err != nil {
		return nil, err
	}
	if _, err := c.kubectl(ctx, "create", "secret", "tls", "edge", "--cert="+c.pki("edge.crt"), "--key="+c.pki("edge.key")); err != nil {
		return nil, err
	}
	began := time.Now()
	p := &proof{cluster: c, fleet: fleet{edge: edgeURL, client: &http.Client{}}}
	if err := p.upgrade(ctx, "--install"); err != nil {
		return nil, err
	}
	if err := p.await(ctx, "deployment/svc-cloud", "deployment/svc-edge", "deployment/page"); err != nil {
		return nil, err
	}
	if err := p.prepareAccount(ctx); err != nil {
		return nil, err
	}
	if err := p.await(ctx, "statefulset/svc-worker"); err != nil {
		return nil, err
	}
	logf("the chart is installed: %.1f s until all pods were ready", time.Since(began).Seconds())
	return p, nil
}

// createVolumes creates volumes that both nodes can mount, for lack of a storage provider.
func (c *cluster) createVolumes(ctx context.Context, count int) error {
	var objects strings.Builder
	for i := range count {
		dir := filepath.Join(c.dir, "volumes", fmt.Sprint(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o777); err != nil { // hostPath volumes have no fsGroup
			return err
		}
		fmt.Fprintf(&objects, `---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: volume-%d}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: %s}}}
`, i, dir)
	}
	return c.apply(ctx, objects.String())
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
	logf("%s ended %.0f s after its deletion with the exit code %d; its grace period is %.0f s", name, pod.at.Sub(began).Seconds(), pod.code, workerGrace.Seconds())
	switch {
	case h.workers[name] == 0:
		err = errors.Join(err, fmt.Errorf("%s had no session", name))
	case pod.err != nil || pod.code != 0 || pod.at.Sub(began) > workerGrace || pod.at.Sub(began) < 30*time.Second:
		err = errors.Join(err, pod.err, fmt.Errorf("%s did not drain: exit code %d", name, pod.code))
	}
	return errors.Join(err, p.await(ctx, "statefulset/svc-worker"))
}

// ended is the end of a pod.
type ended struct {
	at   time.Time
	code int
	err  error
}

// watchEnd waits until the pod with this name and id has gone.
func (p *proof) watchEnd(ctx context.Context, name, uid string) ended {
	e := ended{code: -1}
	e.err = retry(ctx, 2*workerGrace, "the end of "+name, func(ctx context.Context) error {
		text, err := p.kubectl(ctx, "get", "pod/"+name, "--ignore-not-found", "-o", "json")
		if err != nil {
			return err
		}
		var pod struct {
			Metadata struct{ UID string }
			Status   struct {
				ContainerStatuses []struct {
					State struct{ Terminated *struct{ ExitCode int } }
				}
			}
		}
		if text != "" {
			if err := json.Unmarshal([]byte(text), &pod); err != nil {
				return err
			}
		}
		if pod.Metadata.UID != uid {
			return nil
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Terminated != nil {
				e.code = status.State.Terminated.ExitCode
			}
		}
		return errors.New("it still exists")
	})
	e.at = time.Now()
	return e
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

// drain drains a node during constant launches. Then it drains the other one, which the disruption budgets forbid.
func drain(ctx context.Context, p *proof) error {
	if err := p.requireBothNodes(ctx); err != nil {
		return err
	}
	load := p.fleet.startLoad(ctx)
	sleep(ctx, life)
	fewest := p.watchAvailable(ctx, "deployment/svc-cloud", "deployment/svc-edge")
	began := time.Now()
	_, err := p.kubectl(ctx, "drain", "node-2", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10m")
	logf("node-2 was drained in %.0f s", time.Since(began).Seconds())
	err = errors.Join(err, p.await(ctx, "deployment/svc-cloud", "deployment/svc-edge", "statefulset/svc-worker"))
	available := fewest()
	logf("fewest available replicas during the drain: %v", available)
	for object, count := range available {
		if count < 1 {
			err = errors.Join(err, fmt.Errorf("%s had no available replica", object))
		}
	}
	_, refusal := p.kubectl(ctx, "drain", "node-1", "--pod-selector=app.kubernetes.io/component=cloud", "--delete-emptydir-data", "--timeout=30s")
	if refusal == nil || !strings.Contains(refusal.Error(), "disruption budget") {
		err = errors.Join(err, fmt.Errorf("want the last replica of the cloud protected, got %w", errors.Join(refusal, errors.New("a drain"))))
	}
	if err == nil {
		logf("the disruption budget protected the last replica of the cloud from a drain of node-1")
	}
	_, uncordoned := p.kubectl(ctx, "uncordon", "node-1", "node-2")
	return errors.Join(err, uncordoned, p.await(ctx, "deployment/svc-cloud"), load.finish("launches while node-2 is drained"))
}

// requireBothNodes checks that pods of the cloud, the edge and the workers are on node-2.
func (p *proof) requireBothNodes(ctx context.Context) error {
	for _, part := range []string{"cloud", "edge", "worker"} {
		nodes, err := p.kubectl(ctx, "get", "pods", "-l", "app.kubernetes.io/component="+part, "-o", "jsonpath={.items[*].spec.nodeName}")
		if err != nil {
			return err
		}
		logf("%s: %s", part, nodes)
		if !strings.Contains(nodes, "node-2") {
			return fmt.Errorf("no pod of the %s is on node-2", part)
		}
	}
	return nil
}

// watchAvailable returns a function that ends the watch and returns the fewest available replicas of each object.
func (p *proof) watchAvailable(ctx context.Context, objects ...string) func() map[string]int {
	ctx, cancel := context.WithCancel(ctx)
	fewest := make(map[string]int)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, object := range objects {
				text, err := p.get(ctx, object, ".status.availableReplicas")
				if err != nil {
					continue
				}
				count := 0
				if text != "" {
					_, _ = fmt.Sscan(text, &count)
				}
				if before, seen := fewest[object]; !seen || count < before {
					fewest[object] = count
				}
			}
			sleep(ctx, 500*time.Millisecond)
		}
	}()
	return func() map[string]int { cancel(); <-done; return fewest }
}

// restart restarts the programs of both nodes during constant launches. Then those of node-2 and all its containers end at
// once, as in a power failure: sessions on node-1 continue, and the workers of node-2 return by themselves.
func restart(ctx context.Context, p *proof) error {
	load := p.fleet.startLoad(ctx)
	sleep(ctx, life/2)
	var err error
	for _, n := range p.nodes {
		err = errors.Join(err, n.restart(ctx, false))
		sleep(ctx, 10*time.Second)
	}
	err = errors.Join(err, p.awaitNodes(ctx))
	restarts, countErr := p.kubectl(ctx, "get", "pods", "-l", "app.kubernetes.io/component=worker", "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}")
	if strings.Trim(restarts, "0 ") != "" {
		err = errors.Join(err, fmt.Errorf("containers of workers restarted: %s", restarts))
	}
	err = errors.Join(err, countErr, load.finish("launches while containerd, kubelet and kube-proxy of both nodes restart"))
	if err != nil {
		return err
	}
	return p.failNode(ctx, p.nodes[1])
}

// failNode ends all containers and programs of a node and starts its programs again.
func (p *proof) failNode(ctx context.Context, n *node) error {
	names, err := p.kubectl(ctx, "get", "pods", "-l", "app.kubernetes.io/component=worker", "--field-selector=spec.nodeName="+n.name, "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return err
	}
	failing := strings.Fields(names)
	var kept []session
	for range 9 {
		s, err := p.fleet.launch(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(failing, s.worker) {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 || len(kept) == 9 {
		return fmt.Errorf("%d of 9 sessions are not on %s, which has the workers %v", len(kept), n.name, failing)
	}
	began := time.Now()
	if err := n.restart(ctx, true); err != nil {
		return err
	}
	failed, err := p.fleet.launchOn(ctx, failing)
	if err != nil {
		return err
	}
	logf("all containers and programs of %s ended: its workers launched a browser again after %.0f s; %d launches failed until then", n.name, time.Since(began).Seconds(), failed)
	err = errors.Join(p.awaitNodes(ctx), p.await(ctx, "deployment/svc-cloud", "deployment/svc-edge", "statefulset/svc-worker"))
	for _, s := range kept {
		err = errors.Join(err, p.fleet.end(ctx, s))
	}
	if err == nil {
		logf("the %d sessions on the other node continued", len(kept))
	}
	return err
}

// awaitNodes waits until the nodes are ready.
func (p *proof) awaitNodes(ctx context.Context) error {
	_, err := p.kubectl(ctx, "wait", "node", "--all", "--for=condition=Ready", "--timeout=120s")
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
