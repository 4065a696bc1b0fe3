package app

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/tracing"
)

// Config is the worker's configuration.
type Config struct {
	Port            int            `env:"PORT" envDefault:"3000" group:"Most important" doc:"Port to listen on; the container image sets 38923."`
	PublicURL       string         `env:"PUBLIC_URL" doc:"URL at which clients reach this worker. Default: http://localhost:PORT."`
	WorkerID        string         `env:"WORKER_ID" doc:"Name of this machine in the cloud and, as /w/WORKER_ID, in URLs. Default: a generated id."`
	OrganizationKey string         `env:"SVC_KEY" secret:"true" doc:"Organization key, or none for a worker that accepts only launches over /launch, with the callers' keys."`
	WorkerKey       string         `env:"API_KEY" secret:"true" doc:"Worker key, required by the worker API. Default: SVC_KEY, or a key that is generated and printed at each start."`
	CloudURL        string         `env:"SVC_CLOUD_URL" envDefault:"http://localhost:8080" doc:"URL of the cloud API."`
	DataDir         string         `env:"DATA_DIR" envDefault:".svc/worker" doc:"Directory for launches, saved data, builds (browsers), extensions, bundles (one JSON file each) and pending reports."`
	MaxSessions     int            `env:"MAX_SESSIONS" envDefault:"0" doc:"Maximum number of browsers at once. 0: no limit."`
	LaunchMemory    int64          `env:"LAUNCH_MEMORY_MB" envDefault:"0" doc:"Memory of a launch and its files, in megabytes, above which its browser is killed. 0: no limit."`
	MinIsolation    isolationLevel `env:"MIN_ISOLATION" envDefault:"sandbox" doc:"Isolation that launches need: full (the worker does not start if this host cannot separate launches), sandbox (Chromium's own) or none; the images set full."`

	Host           string         `env:"HOST" group:"Network and addresses" doc:"Address to listen on. Default: all addresses."`
	AllowedHosts   string         `env:"ALLOWED_HOSTS" doc:"Addresses of this host that browsers may reach, separated by commas, such as 127.0.0.1:3000,localhost:8081."`
	DeniedHosts    string         `env:"DENIED_HOSTS" envDefault:"default" doc:"Networks and host names that browsers must not reach, separated by commas; default stands for this host, link-local addresses, metadata services, this worker and the cloud API."`
	BlockList      string         `env:"BLOCK_LIST" doc:"File with a filter list in EasyList format, for launches whose network rules block ads: its rules for hosts without options, such as ||example.com^, are applied. Default: such launches are rejected."`
	MCPNetwork     string         `env:"MCP_NETWORK" doc:"Network rules of all launches by agents (/mcp), which narrow all others: a JSON object as in network of a launch, or the path of a file with one."`
	CACertificates []string       `env:"CA_CERTIFICATES" doc:"Additional trusted certificate authorities: PEM files, or directories of them, separated by commas."`
	TrustedProxies []netip.Prefix `env:"TRUSTED_PROXIES" doc:"Networks of load balancers whose X-Forwarded-For header is trusted, separated by commas."`
	DebugPortUsers []string       `env:"DEBUG_PORT_USERS" doc:"Users of this host who may connect to debug ports, besides root and the worker's user, separated by commas."`
	FrameAncestors []string       `env:"VIEW_FRAME_ANCESTORS" doc:"Origins whose pages may embed the live view, separated by commas, such as https://*.example.com. The console always may."`

	ChromiumPath  string `env:"CHROMIUM_PATH" group:"Browsers" doc:"Path of the Chromium to launch besides the builds in BROWSERS_DIR. Default: the system's Chromium."`
	AutoEngine    bool   `env:"AUTO_ENGINE" envDefault:"false" doc:"Use a headless shell for launches that name no engine and need nothing else."`
	WarmPool      []int  `env:"WARM_POOL" envDefault:"2" doc:"Number of warm browsers, which are started before a launch needs them: the minimum, or minimum and maximum, such as 2,6. Default maximum: eight per processor. 0: none."`
	FreezeIdle    int    `env:"FREEZE_IDLE_SECONDS" envDefault:"0" doc:"Freeze a browser that no client has used for this long, in seconds. 0: never."`
	BrowsersDir   string `env:"BROWSERS_DIR" doc:"Directory with more browser builds, one per subdirectory. Default: DATA_DIR/browsers."`
	PlaywrightDir string // replaces DATA_DIR/playwright; for tests
	ChromeDriver  string // path of a chromedriver that replaces the one in PATH; for tests

	MaxUsage    []float64 `env:"MAX_USAGE_PERCENT" envDefault:"90" group:"Limits" doc:"Memory usage in percent at which launches are rejected, or, such as 90,80, memory usage and CPU usage over about ten seconds. 0: no limit."`
	LaunchDisk  int64     `env:"LAUNCH_DISK_MB" envDefault:"1024" doc:"Size of the files of a launch, of its shared memory, and of the saved data of a profile without caches, in megabytes each. 0: no limit."`
	LaunchFiles int64     `env:"LAUNCH_FILES_MB" envDefault:"4096" doc:"Size of the downloads and uploads of a launch together, in megabytes, on the disk of DATA_DIR. 0: no limit."`

	Lifetimes lifetimes `group:"Lifetime of sessions"`

	ObjectStoreURL string        `env:"OBJECT_STORE_URL" secret:"true" group:"Storage" doc:"Object store for the data of persistent profiles and for ended recordings: file:///PATH, s3://BUCKET?region=... or gs://BUCKET. Default: DATA_DIR."`
	FilesRetention time.Duration `env:"FILES_RETENTION" envDefault:"168h" doc:"How long files, recordings and the activity log of a launch are kept after its end. 0: launches that keep any are rejected."`
	Audit          string        `env:"AUDIT" doc:"Write a tamper-evident log of the navigations, clicks, downloads, used secrets and handovers of each session to DATA_DIR/audit: actions. Launches whose log cannot be created are rejected. Default: no log."`

	ShutdownDelay time.Duration `env:"SHUTDOWN_DELAY" envDefault:"0s" group:"Shutdown" doc:"How long requests are served after SIGTERM while /readyz reports not ready; the image sets 5s."`
	DrainTimeout  time.Duration `env:"DRAIN_TIMEOUT" envDefault:"0s" doc:"How long running browsers may then continue before they are stopped; the image sets 25s."`
	SaveTimeout   time.Duration `env:"SAVE_TIMEOUT" envDefault:"30s" doc:"How long the worker then waits for the data of persistent profiles and for recordings to be saved."`

	Metrics metrics.Config `group:"Metrics, traces and logs"`
	Traces  tracing.Config
	Logging program.Logging
}

// Limits that no worker needs to change.
const (
	maxConnections  = 10_000           // of clients at once
	minFreeDisk     = 200 << 20        // of DATA_DIR, in bytes; launches are rejected below it
	profileVersions = 3                // kept of each persistent profile
	launchProcesses = 4096             // processes and threads of a launch; a tab needs about 20
	resumeTimeout   = 30 * time.Second // how long a resumable CDP connection waits for its client
	resumeBuffer    = 32 << 20         // bytes of messages that are kept for all resumable connections of a browser
	unresponsive    = 60 * time.Second // after which a browser that does not answer is stopped
	bundlesDir      = "bundles"        // with more bundles, in DATA_DIR
)

// noKey is the value of SVC_KEY of a worker that has no key.
const noKey = "none"

// headerValue matches a text without spaces that can be sent in a header.
var headerValue = lazy.Regexp(`^[!-~]*$`)

var workerID = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// frameAncestor matches an origin, whose host may begin with a wildcard. Nothing in it can
// end the directive of a Content-Security-Policy.
var frameAncestor = lazy.Regexp(`^https?://(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:([0-9]{1,5}|\*))?$`)

// pair returns the values of a setting that has one or two, such as a minimum and a maximum.
// A missing one is 0.
func pair[T int | float64 | time.Duration](values []T) (first, second T) {
	if len(values) > 0 {
		first = values[0]
	}
	if len(values) > 1 {
		second = values[1]
	}
	return first, second
}

// Validate checks the values and returns all problems at once.
func (c Config) Validate() error {
	var problems []error
	if c.Port < 1 || c.Port > 65535 {
		problems = append(problems, errors.New("PORT must be from 1 to 65535"))
	}
	if c.MaxSessions < 0 || c.DrainTimeout < 0 || c.ShutdownDelay < 0 || c.SaveTimeout < 0 {
		problems = append(problems, errors.New("MAX_SESSIONS, DRAIN_TIMEOUT, SAVE_TIMEOUT and SHUTDOWN_DELAY must not be negative"))
	}
	if len(c.MaxUsage) > 2 || slices.ContainsFunc(c.MaxUsage, func(percent float64) bool { return !(percent >= 0 && percent <= 100) }) {
		problems = append(problems, errors.New("MAX_USAGE_PERCENT must be one or two numbers from 0 to 100: memory, or memory and CPU, such as 90,80"))
	}
	switch c.MinIsolation {
	case isolationFull, isolationSandbox, isolationNone:
	default:
		problems = append(problems, fmt.Errorf("MIN_ISOLATION must be full, sandbox or none, not %q", c.MinIsolation))
	}
	if c.FreezeIdle < 0 || c.FreezeIdle > 86400 {
		problems = append(problems, errors.New("FREEZE_IDLE_SECONDS must be from 0 to 86400"))
	}
	if c.LaunchDisk < 0 || c.LaunchFiles < 0 || c.LaunchMemory < 0 {
		problems = append(problems, errors.New("LAUNCH_DISK_MB, LAUNCH_FILES_MB and LAUNCH_MEMORY_MB must not be negative"))
	}
	if c.FilesRetention != 0 && c.FilesRetention < time.Minute {
		problems = append(problems, errors.New("FILES_RETENTION must be 0 or at least 1m"))
	}
	if c.Audit != "" && c.Audit != auditActions {
		problems = append(problems, fmt.Errorf("AUDIT must be actions or empty, not %q", c.Audit))
	} else if c.Audit != "" && c.FilesRetention == 0 {
		problems = append(problems, errors.New("AUDIT needs a FILES_RETENTION that is not 0, for which logs are kept"))
	}
	if smallest, largest := pair(c.WarmPool); len(c.WarmPool) > 2 || smallest < 0 || smallest > 100 || len(c.WarmPool) == 2 && largest < smallest || largest > 1000 {
		problems = append(problems, errors.New("WARM_POOL must be the minimum, from 0 to 100, or the minimum and the maximum, at most 1000, such as 2,6"))
	}
	if c.WorkerID != "" && !workerID().MatchString(c.WorkerID) {
		problems = append(problems, errors.New("WORKER_ID must have at most 128 letters, digits, dots, dashes and underscores, and start with a letter or digit"))
	}
	for _, origin := range c.FrameAncestors {
		if !frameAncestor().MatchString(origin) {
			problems = append(problems, fmt.Errorf("VIEW_FRAME_ANCESTORS: %q is not an origin such as https://app.example.com", origin))
		}
	}
	problems = append(problems, c.validateOrganizationKey(), c.Lifetimes.Validate(), c.Metrics.Validate(), c.Traces.Validate())
	for name, address := range map[string]string{"PUBLIC_URL": c.PublicURL, "SVC_CLOUD_URL": c.CloudURL} {
		if address == "" {
			continue
		}
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			problems = append(problems, fmt.Errorf("%s must be an http or https URL without user, query or fragment", name))
		}
	}
	return errors.Join(problems...)
}

// validateOrganizationKey checks what is wrong with a key in any cloud. Readiness
// reports a key that the cloud refuses.
func (c Config) validateOrganizationKey() error {
	const organizationKey = "SVC_KEY must be an organization key (svc_, from the dashboard), or none"
	switch {
	case !headerValue().MatchString(c.OrganizationKey):
		return errors.New(organizationKey + ", without spaces and line breaks")
	case oapi.KindOfKey(c.OrganizationKey) == oapi.WorkerKey:
		return errors.New(organizationKey + "; a worker key (wrk_) belongs in API_KEY")
	}
	return nil
}

// organizationKey returns the worker's organization key; empty without one.
func (c Config) organizationKey() string {
	if c.OrganizationKey == noKey {
		return ""
	}
	return c.OrganizationKey
}

// maxProfileData returns the size in bytes above which the data of a profile is not saved.
func (c Config) maxProfileData() int64 {
	if c.LaunchDisk == 0 {
		return math.MaxInt64
	}
	return c.LaunchDisk << 20
}

// publicURL returns the base of the URLs that the worker returns.
func (c Config) publicURL() (*url.URL, error) {
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
