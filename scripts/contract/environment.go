package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/browser-svc/svc/scripts/children"
	"github.com/browser-svc/svc/shared/oapi/bundled"
)

// testEnvironment is the environment of the stages. The servers are started for the
// first stage that needs them, and stopped by close.
type testEnvironment struct {
	root            string // of the repository
	openapi         string // the directory of the documents
	outputDir       string // the directory of logs and results
	observationsDir string // the directory of the observed responses
	randomExamples  int
	sdkNames        []string // the SDKs to test; all when empty
	only            string   // the only operation to test; all when empty

	data      string // the data directory of the servers, removed by close
	documents documents
	proxies   *proxies

	cloud, worker           *children.Child
	cloudPort, workerPort   string // their ports
	cloudProxy, workerProxy *proxy
	seed                    *seed // of the current stage
}

// documents are the OpenAPI documents of the two servers.
type documents struct{ cloud, worker *bundled.Document }

func loadDocuments(ctx context.Context, dir string) (documents, error) {
	var d documents
	var err error
	if d.cloud, err = bundled.Load(ctx, os.DirFS(dir), "cloud.yaml"); err != nil {
		return d, err
	}
	d.worker, err = bundled.Load(ctx, os.DirFS(dir), "worker.yaml")
	return d, err
}

func (h *testEnvironment) mail() mailbox    { return mailbox{filepath.Join(h.data, "cloud", "mail")} }
func (h *testEnvironment) seedFile() string { return filepath.Join(h.outputDir, "seed.json") }

// startServers prepares the servers for a stage: the running cloud gets new users,
// organizations and profiles, and a new worker is started for them.
func (h *testEnvironment) startServers(ctx context.Context) error {
	if h.cloud == nil {
		if err := h.startCloud(ctx); err != nil {
			return err
		}
	}
	if err := h.stopWorker(); err != nil {
		return err
	}
	creator := &seeder{cloudURL: h.cloudProxy.url, workerURL: h.workerProxy.url, mail: h.mail()}
	seed, err := creator.create(ctx, h.startWorker)
	if err != nil {
		return fmt.Errorf("seed the servers: %w", err)
	}
	h.seed = seed
	seed.MailDir = h.mail().dir
	return writeSeed(h.seedFile(), seed)
}

// writeSeed writes a new file that only its owner can read.
func writeSeed(name string, s *seed) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o600)
}

func (h *testEnvironment) startCloud(ctx context.Context) (err error) {
	logf("building the programs, starting the cloud (logs: %s)", filepath.Join(h.outputDir, "{cloud,worker}.log"))
	if err := children.Build(ctx, h.outputDir, "cloud", "worker"); err != nil {
		return err
	}
	if h.documents, err = loadDocuments(ctx, h.openapi); err != nil {
		return err
	}
	if h.data, err = os.MkdirTemp("", "svc-contract-"); err != nil {
		return err
	}
	// As root, PostgreSQL and the browsers run as separate users.
	if err := os.Chmod(h.data, 0o755); err != nil {
		return err
	}
	if h.cloudPort, h.cloudProxy, err = h.newProxy(ctx, h.documents.cloud); err != nil {
		return err
	}
	if h.workerPort, h.workerProxy, err = h.newProxy(ctx, h.documents.worker); err != nil {
		return err
	}
	if err := errors.Join(h.publishBuild(ctx), h.publishPlaywright()); err != nil {
		return err
	}
	h.cloud, err = children.Start(ctx, h.program("cloud", h.cloudPort, "DATA_DIR="+filepath.Join(h.data, "cloud"), "PUBLIC_URL="+h.cloudProxy.url,
		"SIGN_UP=open", "BILLING_SELF_SERVICE=true", "MAX_FREE_ORGANIZATIONS_PER_USER=0", "MAX_KEYS_PER_ORGANIZATION=0")) // generated requests create many
	return err
}

// newProxy opens a proxy for a server that will listen on the port.
func (h *testEnvironment) newProxy(ctx context.Context, document *bundled.Document) (port string, p *proxy, err error) {
	port, err = children.FreePort(ctx)
	if err != nil {
		return "", nil, err
	}
	p, err = h.proxies.start(ctx, document, serverURL(port), directTransport())
	return port, p, err
}

func serverURL(port string) *url.URL { return &url.URL{Scheme: "http", Host: "127.0.0.1:" + port} }

func (h *testEnvironment) startWorker(ctx context.Context, organizationKey, workerKey string) (err error) {
	h.worker, err = children.Start(ctx, h.program("worker", h.workerPort,
		"DATA_DIR="+filepath.Join(h.data, "worker"), "PUBLIC_URL="+h.workerProxy.url, "SVC_CLOUD_URL="+h.cloudProxy.url,
		"SVC_KEY="+organizationKey, "API_KEY="+workerKey, "WARM_POOL=1", "MAX_SESSIONS=16",
		"ALLOWED_HOSTS=127.0.0.0/8,[::1]", // the pages and proxies of the examples
		"MAX_USAGE_PERCENT=0"))            // other load on this machine must not affect the result
	return err
}

// metricsToken is METRICS_TOKEN of both servers.
const metricsToken = "metrics-token-of-the-contract-tests"

func (h *testEnvironment) program(name, port string, environment ...string) children.Program {
	return children.Program{
		Name: name, Path: filepath.Join(h.outputDir, "svc-"+name), Log: filepath.Join(h.outputDir, name+".log"),
		Health:      "http://127.0.0.1:" + port + "/health",
		Environment: append([]string{"HOST=127.0.0.1", "PORT=" + port, "TRUSTED_PROXIES=127.0.0.0/8", "METRICS_TOKEN=" + metricsToken}, environment...),
	}
}

// requireRunning returns an error if a server has exited.
func (h *testEnvironment) requireRunning() error {
	for _, child := range []*children.Child{h.cloud, h.worker} {
		select {
		case <-child.Done():
			return fmt.Errorf("%s exited unexpectedly, see %s:\n%s", child.Name, child.Log, children.Tail(child.Log))
		default:
		}
	}
	return nil
}

func (h *testEnvironment) stopWorker() error {
	if h.worker == nil {
		return nil
	}
	worker := h.worker
	h.worker = nil
	return worker.Stop()
}

// close stops everything in reverse order. It may be called twice.
func (h *testEnvironment) close() error {
	problems := []error{h.stopWorker()}
	if h.cloud != nil {
		problems = append(problems, h.cloud.Stop())
		h.cloud = nil
	}
	for _, p := range []**proxy{&h.workerProxy, &h.cloudProxy} {
		if *p != nil {
			(*p).close()
			*p = nil
		}
	}
	if h.data != "" {
		problems = append(problems, os.RemoveAll(h.data))
		h.data = ""
	}
	return errors.Join(problems...)
}
