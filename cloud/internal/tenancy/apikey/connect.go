package apikey

import (
	"fmt"
	"net/url"
	"strings"
)

// Placeholders for a key whose secret is no longer known.
const (
	Placeholder      = "<org-key>"
	PlaceholderLower = "<org-key-lower>"
)

// Connector returns the instructions that connect a worker with its key (specification
// 5.3).
type Connector struct {
	Cloud    *url.URL // address of the cloud for workers
	Registry string   // registry of the worker's image, such as registry.example.com; empty if there is none
}

// Guide returns how to connect a worker, with placeholders for the key.
type Guide struct {
	CloudURL   string
	Image      string // "" if there is no registry
	Docker     string // command that starts the image; "" without an image
	Compose    string // docker compose file; "" without an image
	Kubernetes string // manifest; "" without an image
	Binary     string // command that starts the installed worker
	Source     string // command that starts the worker from source
}

// Image returns the path of the worker's image for a key, which it contains in
// lowercase; "" without a registry.
func (c Connector) Image(key string) string {
	if c.Registry == "" {
		return ""
	}
	_, registry, ok := strings.Cut(c.Registry, "://")
	if !ok {
		registry = c.Registry
	}
	return strings.TrimRight(registry, "/") + "/" + strings.ToLower(key) + "/local-api"
}

// Guide returns the commands and files. In the commands, the key is passed in the environment, because every user
// of the machine can read arguments.
func (c Connector) Guide() Guide {
	g := Guide{
		CloudURL: c.Cloud.String(),
		Image:    c.Image(PlaceholderLower),
		Binary:   fmt.Sprintf("SVC_KEY=%s SVC_CLOUD_URL=%s svc-worker", Placeholder, c.Cloud),
		Source:   fmt.Sprintf("SVC_KEY=%s SVC_CLOUD_URL=%s go run ./worker", Placeholder, c.Cloud),
	}
	if g.Image != "" {
		g.Docker = fmt.Sprintf("SVC_KEY=%s docker run --detach --name svc-worker --env SVC_KEY --env SVC_CLOUD_URL=%s"+
			" --publish 127.0.0.1:38923:38923 --volume svc-worker:/data --shm-size 2g --stop-timeout 80"+
			" --security-opt seccomp=worker/seccomp.json --security-opt systempaths=unconfined %s", Placeholder, c.Cloud, g.Image)
		g.Compose = fmt.Sprintf(composeTemplate, g.Image, Placeholder, g.CloudURL)
		g.Kubernetes = fmt.Sprintf(kubernetesTemplate, g.Image, Placeholder, g.CloudURL)
	}
	return g
}
