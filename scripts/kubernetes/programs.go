package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	tools            = "scripts/kubernetes/tools"
	containerRuntime = tools + "/runtime" // Debian's containerd and runc have no user namespaces for pods
)

// components are the names of the program kubernetes.
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"}

// buildPrograms builds Kubernetes, etcd, containerd, runc, kube-router, CoreDNS and Helm from their Go modules into
// base/bin, and svc-cloud, svc-worker and the tests of its sandbox.
func buildPrograms(ctx context.Context, base string) error {
	logf("building Kubernetes, etcd, containerd, runc, kube-router, CoreDNS and Helm (some minutes at the first time)")
	version, err := moduleVersion(ctx, "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	minor := strings.Split(version, ".")[1]
	bin := filepath.Join(base, "bin")
	for _, program := range []struct {
		name, dir, source string
		variables         []string // package.name=value, set by the linker
	}{
		// Its parts parse their own version, so it must be set.
		{"kubernetes", tools, "./kubernetes", versions("gitVersion="+version, "gitMajor=1", "gitMinor="+minor)},
		{"etcd", tools, "./etcd", nil},
		{"coredns", tools, "github.com/coredns/coredns", nil},
		{"helm", tools, "helm.sh/helm/v3/cmd/helm", []string{
			"helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1", "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=" + minor,
			"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1", "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=" + minor,
		}},
		{"containerd", containerRuntime, "github.com/containerd/containerd/v2/cmd/containerd", nil},
		{"containerd-shim-runc-v2", containerRuntime, "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", nil},
		{"ctr", containerRuntime, "github.com/containerd/containerd/v2/cmd/ctr", nil},
		{"runc", containerRuntime, "github.com/opencontainers/runc", nil},
		{"kube-router", containerRuntime, "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router", nil},
		{"svc-cloud", ".", "./cloud", nil},
		{"svc-worker", ".", "./worker", nil},
	} {
		flags := []string{"-s", "-w"}
		for _, variable := range program.variables {
			flags = append(flags, "-X", variable)
		}
		args, cgo := []string{"build", "-trimpath", "-ldflags", strings.Join(flags, " ")}, "CGO_ENABLED=0"
		if program.name == "runc" {
			args, cgo = append(args, "-tags", "seccomp"), "CGO_ENABLED=1"
		}
		command := exec.CommandContext(ctx, "go", append(args, "-o", filepath.Join(bin, program.name), program.source)...)
		command.Dir, command.Env = program.dir, append(os.Environ(), cgo)
		if _, err := outputOf(command); err != nil {
			return err
		}
	}
	tests := exec.CommandContext(ctx, "go", "test", "-c", "-o", filepath.Join(bin, sandboxTests), "./worker/internal/browser/sandbox")
	tests.Env = append(os.Environ(), "CGO_ENABLED=0")
	if _, err := outputOf(tests); err != nil {
		return err
	}
	for _, name := range components {
		if err := os.Symlink("kubernetes", filepath.Join(bin, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

func versions(values ...string) []string {
	var all []string
	for _, path := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range values {
			all = append(all, path+"."+value)
		}
	}
	return all
}

// moduleVersion returns the version of a module in the tools' go.mod.
func moduleVersion(ctx context.Context, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
	command.Dir = tools
	text, err := outputOf(command)
	return strings.TrimSpace(text), err
}

// moduleDir downloads a module and returns its directory.
func moduleDir(ctx context.Context, path string) (string, error) {
	text, err := output(ctx, "go", "mod", "download", "-json", path)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &module); err != nil {
		return "", fmt.Errorf("go mod download: %w", err)
	}
	return module.Dir, nil
}
