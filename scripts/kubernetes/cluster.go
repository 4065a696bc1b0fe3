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
	"syscall"
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

// node is a machine of the cluster: containerd, kubelet and kube-proxy.
type node struct {
	*cluster
	name, address, pods string // pods is the network of its pods
	dir                 string
	holder              int               // the id of the process whose namespaces it has
	running             map[string]func() // by name: ends the program
}

func (c *cluster) bin(name string) string { return filepath.Join(c.base, "bin", name) }
func (c *cluster) pki(name string) string { return filepath.Join(c.dir, "pki", name) }
func (c *cluster) kubeconfig() string     { return filepath.Join(c.dir, "admin.kubeconfig") }
func (n *node) socket() string            { return filepath.Join(n.dir, "containerd.sock") }

// startCluster starts the nodes and the control plane in dir. It returns the cluster also with an error.
func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{dir: dir, base: filepath.Dir(dir)}
	// A kubelet sets parameters of the kernel of this machine. It does not if it reads the values that it wants.
	if _, err := output(ctx, "bash", "-euc", `
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
		ip link set "$1" up`, "bash", bridge, hostAddress, dir); err != nil {
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
	for _, n := range c.nodes {
		if err := retry(ctx, 2*time.Minute, n.name, func(ctx context.Context) error {
			_, err := c.kubectl(ctx, "wait", "node/"+n.name, "--for=condition=Ready", "--timeout=5s")
			return err
		}); err != nil {
			return c, err
		}
	}
	_, err := c.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=180s")
	if err == nil {
		logf("the cluster runs")
	}
	return c, err
}

// create creates the namespaces and the network of a node. The other nodes' pods are reached by routes.
func (n *node) create(ctx context.Context) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	holder := exec.CommandContext(ctx, "unshare", "--mount", "--net", "sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := holder.Start(); err != nil {
		return err
	}
	n.holder = holder.Process.Pid
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	if err := retry(ctx, 10*time.Second, "namespaces of "+n.name, func(context.Context) error {
		if its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", n.holder)); err != nil || its == own {
			return errors.Join(err, errors.New("not created"))
		}
		return nil
	}); err != nil {
		return err
	}
	if _, err := output(ctx, "bash", "-euc", `
		ip link add "$1" type veth peer name eth0 netns "$2"
		ip link set "$1" master "$3"
		ip link set "$1" up`, "bash", n.name, fmt.Sprint(n.holder), bridge); err != nil {
		return err
	}
	// /run, /var/lib and /var/log hold the state of its programs. The kernel allows a /proc in the user namespace of a pod
	// only beside one without mounts in it.
	if _, err := n.output(ctx, "bash", "-euc", `
		mount --make-rshared /
		mount -t tmpfs tmpfs /run
		mkdir -p /run/proc "$1"/lib/kubelet "$1"/log
		mount -t proc proc /run/proc
		mount --rbind "$1"/lib /var/lib
		mount --rbind "$1"/log /var/log
		ip link set lo up
		ip address add "$2/24" dev eth0
		ip link set eth0 up
		ip route add default via "$3"
		sysctl -qw net.ipv4.ip_forward=1`, "bash", n.dir, n.address, hostAddress); err != nil {
		return err
	}
	if _, err := output(ctx, "ip", "route", "add", n.pods+".0/24", "via", n.address); err != nil {
		return err
	}
	for i, name := range nodeNames {
		if name != n.name {
			if _, err := n.output(ctx, "ip", "route", "add", fmt.Sprintf("10.244.%d.0/24", i), "via", fmt.Sprintf("10.245.0.%d", 11+i)); err != nil {
				return err
			}
		}
	}
	return createCgroup(n.name)
}

// join starts the programs of the node and imports the images.
func (n *node) join(ctx context.Context) error {
	if err := n.startRuntime(ctx); err != nil {
		return err
	}
	if _, err := n.output(ctx, "ctr", "--address", n.socket(), "--namespace", "k8s.io", "images", "import", imagesFile(n.base)); err != nil {
		return err
	}
	return n.startAgents()
}

// command is a program in the namespaces of the node.
func (n *node) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "nsenter", append([]string{"--target", fmt.Sprint(n.holder), "--mount", "--net", "--", name}, args...)...)
	command.Env = append(os.Environ(), "PATH="+n.bin("")+":"+os.Getenv("PATH"))
	return command
}

func (n *node) output(ctx context.Context, name string, args ...string) (string, error) {
	return outputOf(n.command(ctx, name, args...))
}

// start runs a program of the node until kill or the end of the namespaces. As on a real node, it is started again when it
// ends: a kubelet ends if containerd is not ready yet.
func (n *node) start(name string, args ...string) error {
	log, err := os.OpenFile(n.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.running[name] = func() { cancel(); <-done }
	go func() {
		defer close(done)
		defer log.Close()
		for ctx.Err() == nil {
			command := n.command(ctx, name, args...)
			command.Stdout, command.Stderr = log, log
			command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			_, _ = fmt.Fprintln(log, name, "ended:", command.Run())
			sleep(ctx, time.Second)
		}
	}()
	return nil
}

// kill ends a program of the node at once.
func (n *node) kill(name string) {
	n.running[name]()
	delete(n.running, name)
}

// log returns the log file of a program, which stays after the run.
func (n *node) log(name string) string { return filepath.Join(n.base, "logs", n.name+"-"+name+".log") }

func (c *cluster) writeKubeconfig(to, user string) error {
	return os.WriteFile(to, fmt.Appendf(nil, `apiVersion: v1
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

// startRuntime starts containerd.
func (n *node) startRuntime(ctx context.Context) error {
	for name, text := range map[string]string{
		// restrict_oom_score_adj: containers and CI machines may not lower it.
		"containerd.toml": `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "` + n.socket() + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + n.dir + `/cni"
`,
		"cni/10-bridge.conflist": `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "` + n.pods + `.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`,
	} {
		path := filepath.Join(n.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := n.start("containerd", "--config", filepath.Join(n.dir, "containerd.toml")); err != nil {
		return err
	}
	return retry(ctx, time.Minute, "containerd on "+n.name, func(ctx context.Context) error {
		_, err := n.output(ctx, "ctr", "--address", n.socket(), "version")
		return err
	})
}

// startAgents starts the kubelet, kube-proxy, and kube-router, which enforces network policies.
func (n *node) startAgents() error {
	resolv := filepath.Join(n.dir, "resolv.conf")
	if err := os.WriteFile(resolv, nil, 0o644); err != nil {
		return err
	}
	config := filepath.Join(n.dir, "kubelet.yaml")
	// Two kubelets on one machine: their pods are in control groups of their own.
	if err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %s}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://%s
address: %s
cgroupDriver: cgroupfs
cgroupRoot: /%s/%s
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "100Mi"}
resolvConf: %s
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
`, n.pki("ca.crt"), n.socket(), n.address, cgroup, n.name, resolv), 0o644); err != nil {
		return err
	}
	kubeconfig := filepath.Join(n.dir, "kubeconfig")
	if err := n.writeKubeconfig(kubeconfig, n.name); err != nil {
		return err
	}
	if err := n.start("kubelet", "--config="+config, "--kubeconfig="+kubeconfig, "--hostname-override="+n.name, "--node-ip="+n.address); err != nil {
		return err
	}
	if err := n.start("kube-proxy", "--kubeconfig="+n.kubeconfig(), "--proxy-mode=iptables", "--cluster-cidr="+podNetwork, "--hostname-override="+n.name,
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s"); err != nil {
		return err
	}
	return n.start("kube-router", "--kubeconfig="+n.kubeconfig(), "--hostname-override="+n.name, "--service-cluster-ip-range="+serviceNetwork,
		"--run-firewall", "--run-router=false", "--run-service-proxy=false", "--enable-cni=false", "--health-port=0")
}

// restart kills the container runtime, the kubelet, kube-proxy and kube-router, and starts them again. Containers continue, unless
// all of them end as well.
func (n *node) restart(ctx context.Context, containers bool) error {
	for _, name := range []string{"kubelet", "kube-proxy", "kube-router", "containerd"} {
		n.kill(name)
	}
	if containers {
		if err := killCgroup(n.name); err != nil {
			return err
		}
	}
	if err := n.startRuntime(ctx); err != nil {
		return err
	}
	return n.startAgents()
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
