package app

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/browser-svc/svc/shared/program"
)

// Config is the worker's configuration.
type Config struct {
	Host            string         `env:"HOST" doc:"The address to listen on; all addresses when unset."`
	Port            int            `env:"PORT" envDefault:"3000" doc:"The port to listen on. The container image sets 38923."`
	PublicURL       string         `env:"PUBLIC_URL" doc:"Where clients reach this worker, the base of every URL that it hands out; http://localhost:PORT when unset."`
	WorkerID        string         `env:"WORKER_ID" doc:"The name of this machine, in the cloud and behind a load balancer: when set, URLs get /w/WORKER_ID. A lasting one is made when unset."`
	OrganizationKey string         `env:"SVC_KEY" secret:"true" doc:"The organization key. Without one nothing is launched."`
	WorkerKey       string         `env:"API_KEY" secret:"true" doc:"The worker key, which opens this worker's API; SVC_KEY when unset. With neither, one is made at each start and printed once."`
	CloudURL        string         `env:"SVC_CLOUD_URL" envDefault:"http://localhost:8080" doc:"Where the cloud API is."`
	DataDir         string         `env:"DATA_DIR" envDefault:".svc/worker" doc:"Where launches, kept browser data and waiting reports live. Every user must be able to pass through the directories above it when the worker runs as root."`
	ChromiumPath    string         `env:"CHROMIUM_PATH" doc:"The Chromium to launch; the system's when unset."`
	BrowsersDir     string         `env:"BROWSERS_DIR" doc:"A directory with more browser builds, one in each directory below it."`
	AllowNoSandbox  bool           `env:"ALLOW_NO_SANDBOX" envDefault:"false" doc:"Launch even where this host denies Chromium its sandbox. Whoever drives such a browser can read what it can."`
	TrustedProxies  []netip.Prefix `env:"TRUSTED_PROXIES" doc:"The networks of load balancers whose X-Forwarded-For is believed, separated by commas."`
	Logging         program.Logging
}

var workerID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Validate checks what one variable's type can't.
func (c Config) Validate() error {
	var problems []error
	if c.Port < 1 || c.Port > 65535 {
		problems = append(problems, errors.New("PORT must be from 1 to 65535"))
	}
	if c.WorkerID != "" && !workerID.MatchString(c.WorkerID) {
		problems = append(problems, errors.New("WORKER_ID must be letters, digits, dots, dashes and underscores, at most 128"))
	}
	for name, address := range map[string]string{"PUBLIC_URL": c.PublicURL, "SVC_CLOUD_URL": c.CloudURL} {
		if address == "" {
			continue
		}
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			problems = append(problems, fmt.Errorf("%s must be an http or https URL without user, query and fragment", name))
		}
	}
	return errors.Join(problems...)
}

// public is the base of the URLs that the worker hands out.
func (c Config) public() (*url.URL, error) {
	address := c.PublicURL
	if address == "" {
		address = fmt.Sprintf("http://localhost:%d", c.Port)
	}
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil {
		return nil, fmt.Errorf("PUBLIC_URL: %w", err)
	}
	if c.WorkerID != "" {
		base = base.JoinPath("w", c.WorkerID)
	}
	return base, nil
}
