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

const tools = "scripts/kubernetes/tools"

// components are the names of the program kubernetes.
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"}

// buildPrograms builds Kubernetes, etcd, CoreDNS and Helm from their Go modules into base/bin, and svc-cloud and
// svc-worker.
func buildPrograms(ctx context.Context, base string) error {
	logf("building Kubernetes, etcd, CoreDNS and Helm (some minutes at the first time)")
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
		{"svc-cloud", ".", "./cloud", nil},
		{"svc-worker", ".", "./worker", nil},
	} {
		flags := []string{"-s", "-w"}
		for _, variable := range program.variables {
			flags = append(flags, "-X", variable)
		}
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", strings.Join(flags, " "), "-o", filepath.Join(bin, program.name), program.source)
		command.Dir, command.Env = program.dir, append(os.Environ(), "CGO_ENABLED=0")
		if _, err := outputOf(command); err != nil {
			return err
		}
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
	for _, of := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range values {
			all = append(all, of+"."+value)
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
func moduleDir(ctx context.Context, of string) (string, error) {
	text, err := output(ctx, "go", "mod", "download", "-json", of)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &module); err != nil {
		return "", fmt.Errorf("go mod download: %w", err)
	}
	return module.Dir, nil
}
