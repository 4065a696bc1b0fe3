// kubernetes is `make kubernetes`: it builds a Kubernetes, starts it with two nodes on this machine, installs the chart
// and proves that launches and sessions survive upgrades, scaling, drains and restarts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const help = `svc-kubernetes: build a Kubernetes with two nodes on this machine, install the chart and prove it. Run it with
make kubernetes, or in the repository root, as root. It builds what is missing in .svc/kubernetes: ten minutes and 2 GB
at the first time.

All of its processes, mounts and network interfaces are in namespaces of their own, which end with it.

Usage: bin/svc-kubernetes [--proofs NAME,...] [--keep]

  --proofs   The proofs to run, separated by commas; all when empty: `

func main() {
	var o options
	flags := flag.NewFlagSet("svc-kubernetes", flag.ExitOnError)
	flags.StringVar(&o.proofs, "proofs", "", "")
	flags.BoolVar(&o.keep, "keep", false, "")
	flags.StringVar(&o.inside, "inside", "", "")
	flags.Usage = func() {
		fmt.Print(help, strings.Join(proofNames(), ", "), "\n  --keep     Keep the cluster until Ctrl-C\n")
	}
	_ = flags.Parse(os.Args[1:]) // exits on an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	run := o.outside
	if o.inside != "" {
		run = o.proveInside
	}
	if err := run(ctx); err != nil {
		if o.inside == "" || !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "make kubernetes:", err)
		}
		os.Exit(1)
	}
}

type options struct {
	proofs string
	keep   bool
	inside string // the directory of the cluster; set in the process inside the namespaces
}

func logf(format string, args ...any) {
	fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// outside builds everything and runs the proofs in namespaces of their own.
func (o options) outside(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("a Kubernetes node needs root: run it as root, in a virtual machine of your own")
	}
	if _, err := selectProofs(o.proofs); err != nil {
		return err
	}
	base, err := filepath.Abs(filepath.Join(".svc", "kubernetes"))
	if err != nil {
		return err
	}
	if err := buildPrograms(ctx, base); err != nil {
		return err
	}
	if err := buildImages(ctx, base); err != nil {
		return err
	}
	if err := checkChart(ctx, base); err != nil {
		return err
	}
	logs := filepath.Join(base, "logs")
	if err := errors.Join(os.RemoveAll(logs), os.MkdirAll(logs, 0o755)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(base, "cluster-")
	if err != nil {
		return err
	}
	// The mounts below dir ended with the namespaces.
	defer func() { err = errors.Join(err, removeCgroups(), os.RemoveAll(dir)) }()
	if err := writeCertificates(filepath.Join(dir, "pki")); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logf("starting the cluster in %s", dir)
	// The first process of the PID namespace must reap the processes whose parent ended, which bash does. When it ends,
	// the kernel ends all others.
	command := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"bash", "-c", `"$@"; exit $?`, "init", self, "--inside", dir, "--proofs", o.proofs, fmt.Sprintf("--keep=%t", o.keep))
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Certificates of the cluster are valid for the clients in this process, including WebSockets.
	command.Env = append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(dir, "pki", "ca.crt"))
	command.Cancel = func() error { return nil } // Ctrl-C reaches the process inside, which saves its logs and ends
	command.WaitDelay = time.Minute
	if err := command.Run(); err != nil {
		return fmt.Errorf("the proofs failed: %w", err)
	}
	return nil
}

// proveInside starts the cluster, installs the chart and runs the proofs.
func (o options) proveInside(ctx context.Context) (err error) {
	proofs, err := selectProofs(o.proofs)
	if err != nil {
		return err
	}
	c, err := startCluster(ctx, o.inside)
	defer func() {
		if err != nil && ctx.Err() == nil {
			c.explain()
		}
	}()
	if err != nil {
		return err
	}
	p, err := install(ctx, c)
	if err != nil {
		return err
	}
	var failed []error
	for _, proof := range proofs {
		logf("proof: %s", proof.name)
		if err := proof.run(ctx, p); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", proof.name, err))
			logf("FAILED %s: %v", proof.name, err)
			if ctx.Err() != nil {
				break
			}
		}
	}
	logf("%d passed, %d failed", len(proofs)-len(failed), len(failed))
	if o.keep && ctx.Err() == nil {
		logf("Ctrl-C ends the cluster. A shell in it: nsenter --target %d --mount --net --pid bash; KUBECONFIG=%s", os.Getpid(), c.kubeconfig())
		<-ctx.Done()
	}
	return errors.Join(failed...)
}

// output runs a program and returns what it prints. Its error contains what it prints on standard error.
func output(ctx context.Context, name string, args ...string) (string, error) {
	return outputOf(exec.CommandContext(ctx, name, args...))
}

func outputOf(command *exec.Cmd) (string, error) {
	var failure strings.Builder
	command.Stderr = &failure
	text, err := command.Output()
	if err != nil {
		return string(text), fmt.Errorf("%s: %w: %s%s", strings.Join(command.Args[:min(len(command.Args), 6)], " "), err, failure.String(), text)
	}
	return string(text), nil
}

// retry repeats try until it succeeds, for at most timeout.
func retry(ctx context.Context, timeout time.Duration, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, timeout, err)
		case <-time.After(300 * time.Millisecond):
		}
	}
}
