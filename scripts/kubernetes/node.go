package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// node is a machine of the cluster: containerd, kubelet and kube-proxy.
type node struct {
	*cluster
	name, address, pods string // pods is the network of its pods
	dir                 string
	holder              int               // the id of the process whose namespaces it has
	running             map[string]func() // by name: ends the program
}

func (n *node) socket() string { return filepath.Join(n.dir, "containerd.sock") }

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
