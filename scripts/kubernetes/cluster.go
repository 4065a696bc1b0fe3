package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/browser-svc/svc/scripts/children"
)

const (
	hostAddress    = "10.245.0.1"  // of the outside, where clients are
	controlAddress = "10.245.0.11" // of the first node, which also runs the control plane
	podNetwork     = "10.244.0.0/16"
	serviceNetwork = "10.96.0.0/16"
	pauseImage     = "svc.test/pause:1"
	bridge         = "nodes"
)

// nodeNames are the nodes. Each has a network and a mount namespace.
var nodeNames = []string{"node-1", "node-2"}

//go:embed coredns.yaml
var coredns string

// cluster is a running Kubernetes.
type cluster struct {
	dir, base string
	nodes     []*node
}

func (c *cluster) bin(name string) string { return filepath.Join(c.base, "bin", name) }
func (c *cluster) pki(name string) string { return filepath.Join(c.dir, "pki", name) }
func (c *cluster) kubeconfig() string     { return filepath.Join(c.dir, "admin.kubeconfig") }

// startCluster starts the nodes and the control plane in dir. It returns the cluster also with an error.
func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{dir: dir, base: filepath.Dir(dir)}
	if err := c.prepareNamespaces(ctx); err != nil {
		return c, err
	}
	if err := c.writeKubeconfig(c.kubeconfig(), "admin"); err != nil {
		return c, err
	}
	for i, name := range nodeNames {
		n := &node{
			cluster: c, name: name, address: fmt.Sprintf("10.245.0.%d", 11+i), pods: fmt.Sprintf("10.244.%d", i),
			dir: filepath.Join(dir, name), running: make(map[string]func()),
		}
		if err := n.create(ctx); err != nil {
			return c, fmt.Errorf("create %s: %w", name, err)
		}
		c.nodes = append(c.nodes, n)
	}
	if err := c.startControlPlane(ctx); err != nil {
		return c, err
	}
	logf("importing the images")
	var starting sync.WaitGroup
	failures := make([]error, len(c.nodes))
	for i, n := range c.nodes {
		starting.Go(func() { failures[i] = n.join(ctx) })
	}
	starting.Wait()
	if err := errors.Join(append(failures, c.apply(ctx, coredns))...); err != nil {
		return c, err
	}
	return c, c.awaitReady(ctx)
}

// prepareNamespaces creates the bridge of the nodes, in the namespaces of this process.
func (c *cluster) prepareNamespaces(ctx context.Context) error {
	// A kubelet sets parameters of the kernel of this machine. It does not if it reads the values that it wants.
	_, err := output(ctx, "bash", "-euc", `
		mount --make-rprivate /
		while read -r name value; do
			file=$3/${name//\//-}
			echo "$value" > "$file"
			mount --bind "$file" "/proc/sys/$name"
		done <<-'END'
			vm/overcommit_memory 1
			vm/panic_on_oom 0
			kernel/panic 10
			kernel/panic_on_oops 1
			kernel/keys/root_maxkeys 1000000
			kernel/keys/root_maxbytes 25000000
		END
		ip link set lo up
		ip link add "$1" type bridge
		ip address add "$2/24" dev "$1"
		ip link set "$1" up`, "bash", bridge, hostAddress, c.dir)
	return err
}

// awaitReady waits until the nodes and the name service are ready.
func (c *cluster) awaitReady(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := retry(ctx, 2*time.Minute, n.name, func(ctx context.Context) error {
			_, err := c.kubectl(ctx, "wait", "node/"+n.name, "--for=condition=Ready", "--timeout=5s")
			return err
		}); err != nil {
			return err
		}
	}
	_, err := c.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=180s")
	if err == nil {
		logf("the cluster runs")
	}
	return err
}

func (c *cluster) writeKubeconfig(path, user string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: local
clusters: [{name: local, cluster: {server: "https://%s:6443", certificate-authority: %s}}]
users: [{name: user, user: {client-certificate: %s, client-key: %s}}]
contexts: [{name: local, context: {cluster: local, user: user}}]
`, controlAddress, c.pki("ca.crt"), c.pki(user+".crt"), c.pki(user+".key")), 0o600)
}

func (c *cluster) startControlPlane(ctx context.Context) error {
	n := c.nodes[0]
	for _, program := range [][]string{
		{
			"etcd", "--data-dir", filepath.Join(n.dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=default=http://127.0.0.1:2380",
		},
		{
			"kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--bind-address=" + controlAddress, "--advertise-address=" + controlAddress,
			"--secure-port=6443", "--client-ca-file=" + c.pki("ca.crt"), "--tls-cert-file=" + c.pki("apiserver.crt"), "--tls-private-key-file=" + c.pki("apiserver.key"),
			"--kubelet-client-certificate=" + c.pki("admin.crt"), "--kubelet-client-key=" + c.pki("admin.key"),
			"--service-account-key-file=" + c.pki("service-accounts.crt"), "--service-account-signing-key-file=" + c.pki("service-accounts.key"),
			"--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=" + serviceNetwork,
			"--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
		},
	} {
		if err := n.start(program[0], program[1:]...); err != nil {
			return err
		}
	}
	if err := retry(ctx, 2*time.Minute, "the API server", func(ctx context.Context) error {
		_, err := c.kubectl(ctx, "get", "--raw", "/readyz")
		return err
	}); err != nil {
		return err
	}
	if err := n.start("kube-controller-manager", "--kubeconfig="+c.kubeconfig(), "--service-account-private-key-file="+c.pki("service-accounts.key"),
		"--root-ca-file="+c.pki("ca.crt"), "--use-service-account-credentials=true", "--bind-address=127.0.0.1", "--leader-elect=false"); err != nil {
		return err
	}
	return n.start("kube-scheduler", "--kubeconfig="+c.kubeconfig(), "--bind-address=127.0.0.1", "--leader-elect=false")
}

func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return output(ctx, c.bin("kubectl"), append([]string{"--kubeconfig", c.kubeconfig()}, args...)...)
}

// apply creates or changes objects.
func (c *cluster) apply(ctx context.Context, objects string) error {
	command := exec.CommandContext(ctx, c.bin("kubectl"), "--kubeconfig", c.kubeconfig(), "apply", "--server-side", "-f", "-")
	command.Stdin = strings.NewReader(objects)
	_, err := outputOf(command)
	return err
}

func (c *cluster) helm(ctx context.Context, args ...string) (string, error) {
	return output(ctx, c.bin("helm"), append([]string{"--kubeconfig", c.kubeconfig()}, args...)...)
}

// explain prints what helps to understand a failure.
func (c *cluster) explain() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--field-selector=type=Warning"}} {
		text, err := c.kubectl(ctx, args...)
		if err != nil {
			text = err.Error()
		}
		fmt.Println(text)
	}
	for _, n := range c.nodes {
		for name := range n.running {
			if text := children.Tail(n.log(name)); strings.Contains(text, "panic") || strings.Contains(text, "rror") {
				fmt.Printf("%s %s:\n%s\n", n.name, name, text)
			}
		}
	}
}
