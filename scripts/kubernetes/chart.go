package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const chart = "scripts/kubernetes/chart"

// variant is a set of values that the chart must accept in addition to those of the proof, with a check of its objects.
type variant struct {
	values []string
	check  func([]object) error
}

func variants() []variant {
	return []variant{
		{[]string{"postgresql.enabled=true"}, checkDefaults},
		{[]string{"postgresql.enabled=true,bootstrap.enabled=true,bootstrap.email=ada@example.com"}, checkBootstrap},
		{[]string{"database.existingSecret=svc-db-app,database.key=uri,cloud.existingSecret=cloud,metrics.prometheusRule.enabled=true"}, checkProduction},
		{[]string{
			"postgresql.enabled=true,edge.tlsSecret=edge,edge.proxyProtocol=true,cloud.autoscaling.enabled=true,worker.maxUnavailable=5",
			"worker.autoscaling.keda.enabled=true,metrics.serviceMonitor.enabled=true",
			"worker.seccomp.type=RuntimeDefault,worker.allowNoSandbox=true,imagePullSecrets={registry}",
		}, checkAutoscaled},
		{[]string{"postgresql.enabled=true,worker.autoscaling.hpa.enabled=true,worker.persistence.enabled=false,fullnameOverride=browsers"}, nil},
		{[]string{
			"postgresql.enabled=true,worker.hostUsers=false,worker.appArmorProfile=svc-worker",
			"networkPolicy.workerEgress[0].to[0].ipBlock.cidr=10.20.0.0/16,networkPolicy.workerEgress[0].ports[0].port=3128",
			"networkPolicy.profileStore[0].to[0].podSelector.matchLabels.app=minio,networkPolicy.profileStore[0].ports[0].port=9000",
		}, checkLimited},
	}
}

// refused are values that the chart must refuse, with a part of its message.
var refused = map[string]string{
	"cloud.replicas=2":                                                                                 "Set database.existingSecret",
	"postgresql.enabled=true,wrker.sessions=1":                                                         "wrker",
	"postgresql.enabled=true,worker.sessions=0":                                                        "sessions",
	"postgresql.enabled=true,worker.drainTimeoutSeconds=1h":                                            "drainTimeoutSeconds",
	"postgresql.enabled=true,cloud.publicUrl=cloud":                                                    "publicUrl",
	"postgresql.enabled=true,bootstrap.email=ada":                                                      "email",
	"postgresql.enabled=true,networkPolicy.workerEgress[0].from[0].podSelector.matchLabels.app=a":      "from",
	"postgresql.enabled=true,worker.existingSecret=":                                                   "existingSecret",
	"postgresql.enabled=true,worker.autoscaling.keda.enabled=true,worker.autoscaling.hpa.enabled=true": "only one",
}

// definitions are the objects that the chart can create and that other projects define.
var definitions = map[string][]string{
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
	"github.com/kedacore/keda/v2@v2.21.0": {"config/crd/bases/keda.sh_scaledobjects.yaml"},
}

// checkChart lints the chart, checks its objects and writes all variants of its objects, and the definitions of foreign ones, to
// base/objects.
func checkChart(ctx context.Context, base string) error {
	logf("checking the chart")
	helm, dir := filepath.Join(base, "bin", "helm"), filepath.Join(base, "objects")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for values, message := range refused {
		text, err := output(ctx, helm, "template", "svc", chart, "--set", values)
		if err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Errorf("helm template --set %s: want a refusal with %q, got %w: %.200s", values, message, errors.Join(err, errors.New("")), text)
		}
	}
	for i, v := range variants() {
		var values []string
		for _, set := range v.values {
			values = append(values, "--set", set)
		}
		if text, err := output(ctx, helm, append([]string{"lint", "--strict", "--quiet", chart}, values...)...); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		text, err := output(ctx, helm, append([]string{"template", "svc", chart}, values...)...)
		if err != nil {
			return err
		}
		objects, err := parseObjects(text)
		if err != nil {
			return err
		}
		err = checkObjects(objects)
		if v.check != nil {
			err = errors.Join(err, v.check(objects))
		}
		if err != nil {
			return fmt.Errorf("the chart with %v: %w", v.values, err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("variant-%d.yaml", i)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for module, files := range definitions {
		source, err := moduleDir(ctx, module)
		if err != nil {
			return err
		}
		for _, name := range files {
			content, err := os.ReadFile(filepath.Join(source, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, "definition-"+filepath.Base(name)), content, 0o644); err != nil { //nolint:gosec // a constant name
				return err
			}
		}
	}
	return nil
}

// validate lets the API server check all variants, without creating anything.
func validate(ctx context.Context, c *cluster) error {
	definitions, err := filepath.Glob(filepath.Join(c.base, "objects", "definition-*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range definitions {
		if _, err := c.kubectl(ctx, "apply", "--server-side", "-f", path); err != nil {
			return err
		}
	}
	if _, err := c.kubectl(ctx, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"); err != nil {
		return err
	}
	variants, err := filepath.Glob(filepath.Join(c.base, "objects", "variant-*.yaml"))
	if err != nil {
		return err
	}
	total := 0
	for _, path := range variants {
		text, err := c.kubectl(ctx, "apply", "--dry-run=server", "--validate=strict", "-f", path)
		if err != nil {
			return err
		}
		total += strings.Count(text, "\n")
	}
	logf("the API server accepts %d objects of %d variants of the chart", total, len(variants))
	return nil
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
