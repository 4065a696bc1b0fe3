package apikey

import (
	"fmt"
	"net/url"
	"strings"
)

// What stands for a key where the key itself is not known any more.
const (
	Placeholder      = "<org-key>"
	PlaceholderLower = "<org-key-lower>"
)

// Connector tells how a worker is given its key (specification 5.3).
type Connector struct {
	Cloud    *url.URL // where workers reach the cloud
	Registry string   // where the worker's image is, such as registry.example.com; empty for nowhere
}

// Guide is how to connect a worker, with placeholders for the key.
type Guide struct {
	CloudURL string
	Image    string // "" without a registry
	Docker   string // the command line that starts the image; "" without one
	Source   string // the command line that starts the source tree
}

// Image is the path of the worker's image for a key, which it has in lowercase;
// "" without a registry.
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

// Guide returns the command lines. The key is in the environment, not among the
// arguments, which every user of the machine can read.
func (c Connector) Guide() Guide {
	g := Guide{
		CloudURL: c.Cloud.String(),
		Image:    c.Image(PlaceholderLower),
		Source:   fmt.Sprintf("SVC_KEY=%s SVC_CLOUD_URL=%s go run ./worker", Placeholder, c.Cloud),
	}
	if g.Image != "" {
		g.Docker = fmt.Sprintf("SVC_KEY=%s docker run --detach --name svc-worker --env SVC_KEY --env SVC_CLOUD_URL=%s"+
			" --publish 127.0.0.1:38923:38923 --volume svc-worker:/data --shm-size 2g"+
			" --security-opt seccomp=worker/seccomp.json %s", Placeholder, c.Cloud, g.Image)
	}
	return g
}
