package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
				if before, found := fewest[object]; !found || count < before {
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
